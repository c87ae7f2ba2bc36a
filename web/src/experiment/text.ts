/* Edits of an experiment's YAML that leave the rest of the text alone: comments, blank lines, order, spelling.

   An edit is first tried as a splice of the text. The result is read again, and only where it does not say what was
   meant (anchors, unusual layouts) the document is written anew, which keeps comments but not every space. */

import { isMap, isScalar, isSeq, parseDocument, type Document, type Node, type Pair, type YAMLMap, type YAMLSeq } from "yaml";

import { isSection, valueAt, type Json, type Path } from "./fields";
import { flow, key } from "./values";

export interface Reading {
  data: Json;
  problem: { message: string; line: number; column: number } | null; // why the text is not YAML
}

export function read(text: string): Reading {
  const document = parseDocument(text, { prettyErrors: true });
  const [error] = document.errors;
  if (error) {
    const at = error.linePos?.[0];
    const message = error.message.split("\n")[0]?.replace(/ at line \d+, column \d+:?$/, "") ?? "cannot be read";
    return { data: null, problem: { message, line: at?.line ?? 1, column: at?.col ?? 1 } };
  }
  return { data: plainData(document), problem: null };
}

function plainData(document: Document): Json {
  return (document.toJS({ maxAliasCount: 100 }) as Json | undefined) ?? null;
}

/** The text with one value changed; `undefined` takes the key away, and sections that are empty then. */
export function withValue(text: string, path: Path, value: Json | undefined): string {
  const document = parseDocument(text);
  if (document.errors.length > 0) return text;
  const meant = value === undefined ? without(plainData(document), path) : put(plainData(document), path, value);
  const spliced = value === undefined ? removal(text, document, path) : splice(text, document, path, value);
  if (spliced !== null && says(spliced, meant)) return spliced;
  return rewritten(document, meant, path, value);
}

function rewritten(document: Document, meant: Json, path: Path, value: Json | undefined): string {
  if (value === undefined) {
    for (let length = path.length; length > 0; length--) {
      const place = path.slice(0, length);
      if (valueAt(meant, place) === undefined) document.deleteIn(place);
    }
  } else {
    document.setIn(path, document.createNode(value));
  }
  return document.toString({ lineWidth: 0 });
}

function says(text: string, meant: Json): boolean {
  const document = parseDocument(text);
  return document.errors.length === 0 && same(plainData(document), meant);
}

export function same(one: Json | undefined, other: Json | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

// Plain data

function put(data: Json, path: Path, value: Json): Json {
  const [head, ...rest] = path;
  if (head === undefined) return value;
  if (Array.isArray(data) && typeof head === "number") {
    const copy = [...data];
    copy[head] = put(data[head] ?? null, rest, value);
    return copy;
  }
  const section = isSection(data) ? data : {};
  return { ...section, [head]: put(section[String(head)] ?? null, rest, value) };
}

function without(data: Json, path: Path): Json {
  const [head, ...rest] = path;
  if (head === undefined) return data;
  if (Array.isArray(data)) {
    if (rest.length === 0) return data.filter((_, index) => index !== head);
    return data.map((item, index) => (index === head ? without(item, rest) : item));
  }
  if (!isSection(data) || !(head in data)) return data;
  const inner = rest.length === 0 ? undefined : without(data[head] ?? null, rest);
  const { [String(head)]: _gone, ...others } = data;
  const empty = inner === undefined || (typeof rest[0] === "string" && isSection(inner) && Object.keys(inner).length === 0);
  if (empty) return others;
  return { ...data, [head]: inner };
}

// Text

function splice(text: string, document: Document, path: Path, value: Json): string | null {
  const node = nodeAt(document, path);
  const range = node?.range;
  if (range && (isScalar(node) || inFlow(text, node))) {
    const found = text.slice(range[0], range[1]);
    const gap = found === "" && text[range[0] - 1] === ":" ? " " : ""; // `key:` with nothing behind it
    return text.slice(0, range[0]) + gap + flow(value) + text.slice(range[1]);
  }
  if (node) return null;
  return insertion(text, document, path, value);
}

/** A new key goes to the end of the nearest section that is there. */
function insertion(text: string, document: Document, path: Path, value: Json): string | null {
  for (let length = path.length - 1; length >= 0; length--) {
    const parent = length === 0 ? document.contents : nodeAt(document, path.slice(0, length));
    if (parent === null || parent === undefined) {
      if (length === 0) return append(text, block(nested(path, value), 0));
      continue;
    }
    const rest = path.slice(length);
    if (typeof rest[0] === "number") return isSeq(parent) ? intoList(text, parent, nested(rest.slice(1), value)) : null;
    if (!isMap(parent) || !parent.range) return null;
    if (parent.flow) return intoFlow(text, parent, `${key(rest[0])}: ${flow(nested(rest.slice(1), value))}`);
    const last = parent.items.at(-1);
    const start = startOf(parent.items[0]);
    if (last === undefined || start === null) return null;
    const indent = start - lineStart(text, start);
    const lines = block(nested(rest, value), indent);
    const end = contentEnd(text, endOf(last));
    return text.slice(0, end) + (text[end - 1] === "\n" ? "" : "\n") + lines + text.slice(end);
  }
  return null;
}

function intoList(text: string, list: YAMLSeq, value: Json): string | null {
  if (list.flow && list.range) return intoFlow(text, list, flow(value));
  const [firstItem] = list.items as Node[];
  const last = list.items.at(-1) as Node | undefined;
  if (!firstItem?.range || !last?.range) return null;
  const dash = text.lastIndexOf("-", firstItem.range[0]);
  const end = contentEnd(text, last.range[1]);
  const indent = " ".repeat(dash - lineStart(text, dash));
  return `${text.slice(0, end)}${text[end - 1] === "\n" ? "" : "\n"}${indent}- ${flow(value)}\n${text.slice(end)}`;
}

function intoFlow(text: string, parent: YAMLMap | YAMLSeq, entry: string): string | null {
  if (!parent.range) return null;
  const close = parent.range[1] - 1;
  const before = text.slice(0, close).trimEnd();
  const padding = text.slice(before.length, close);
  const comma = parent.items.length > 0 ? ", " : isMap(parent) ? " " : "";
  return before + comma + entry + (padding || (isMap(parent) ? " " : "")) + text.slice(close);
}

/** A line that holds one pair and nothing else can go; of a flow section, what stands between two commas. */
function removal(text: string, document: Document, path: Path): string | null {
  const parent = path.length === 1 ? document.contents : nodeAt(document, path.slice(0, -1));
  if (!isMap(parent)) return null;
  if (parent.items.length === 1 && path.length > 1) return removal(text, document, path.slice(0, -1));
  const index = parent.items.findIndex((pair) => isScalar(pair.key) && pair.key.value === path.at(-1));
  const pair = parent.items[index];
  const start = pair && startOf(pair);
  if (pair === undefined || start === null || start === undefined) return null;
  if (parent.flow) {
    const after = parent.items[index + 1];
    const next = after && startOf(after);
    if (next !== undefined && next !== null) return text.slice(0, start) + text.slice(next);
    const comma = text.lastIndexOf(",", start);
    return text.slice(0, comma) + text.slice(endOf(pair));
  }
  const end = contentEnd(text, endOf(pair));
  return text.slice(0, lineStart(text, start)) + text.slice(end);
}

function nodeAt(document: Document, path: Path): Node | undefined {
  return document.getIn(path, true) as Node | undefined;
}

function inFlow(text: string, node: Node | undefined): boolean {
  return node?.range !== undefined && node.range !== null && /[[{]/.test(text[node.range[0]] ?? "");
}

function startOf(pair: Pair | undefined): number | null {
  return (pair?.key as Node | null | undefined)?.range?.[0] ?? null;
}

function endOf(pair: Pair): number {
  const value = pair.value as Node | null;
  return value?.range?.[1] ?? (pair.key as Node).range?.[1] ?? 0;
}

const lineStart = (text: string, place: number): number => text.lastIndexOf("\n", place - 1) + 1;

/** Behind the line at which a value ends, with the comment on that line; a value that ends with a line ends there. */
function contentEnd(text: string, place: number): number {
  const trimmed = text.slice(0, place).trimEnd().length;
  const newline = text.indexOf("\n", trimmed);
  return newline < 0 ? text.length : newline + 1;
}

const append = (text: string, lines: string): string => (text === "" || text.endsWith("\n") ? text : `${text}\n`) + lines;

function nested(path: Path, value: Json): Json {
  return [...path].reverse().reduce<Json>((inner, part) => ({ [part]: inner }), value);
}

function block(value: Json, indent: number): string {
  if (!isSection(value)) return "";
  const space = " ".repeat(indent);
  return Object.entries(value)
    .map(([name, inner]) =>
      isSection(inner) && Object.keys(inner).length > 0
        ? `${space}${key(name)}:\n${block(inner, indent + 2)}`
        : `${space}${key(name)}: ${flow(inner)}\n`,
    )
    .join("");
}
