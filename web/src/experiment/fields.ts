/* The settings of an experiment as a tree of shapes, read from its JSON schema.

   A shape says which control a value needs. `$ref`s are followed when a shape is asked for, never before, so that a
   schema may refer to itself. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Path = readonly (string | number)[];

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string;
  const?: Json;
  enum?: Json[];
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  prefixItems?: Schema[];
  additionalProperties?: boolean | Schema;
  default?: Json;
  description?: string;
  title?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
}

interface Meaning {
  help: string;
  default: Json | undefined;
  nullable: boolean;
  label: string; // what a branch of a choice is called
}

export type Shape = Meaning &
  (
    | { kind: "section"; fields: readonly Field[] }
    | { kind: "number"; whole: boolean; bounds: string }
    | { kind: "text" }
    | { kind: "choice"; options: readonly Json[] }
    | { kind: "list"; item: Shape; places: readonly Shape[] } // `places`: a fixed number of items, each of its own shape
    | { kind: "table"; value: Shape } // keys are the user's
    | { kind: "either"; branches: readonly Shape[] }
    | { kind: "free" } // any YAML
  );

export interface Field {
  key: string;
  required: boolean;
  readonly shape: Shape;
}

/** The sections of an experiment that trains with `algo`, in the order of the schema; `train` is that algorithm's. */
export function experimentFields(schema: Schema, algo: string): readonly Field[] {
  const properties: Record<string, Schema> = { ...schema.properties };
  if (schema.$defs?.[`train.${algo}`]) {
    properties["train"] = { ...properties["train"], $ref: `#/$defs/train.${algo}` };
  }
  const { train, ...others } = properties;
  const order: Record<string, Schema> = {};
  for (const [key, value] of Object.entries(others)) {
    order[key] = value;
    if (key === "policy" && train) order["train"] = train; // what people set most stands first
  }
  if (train && !("train" in order)) order["train"] = train;
  return fieldsOf({ properties: order, required: schema.required }, schema);
}

function fieldsOf(node: Schema, root: Schema): Field[] {
  return Object.entries(node.properties ?? {}).map(([key, inner]) => {
    let shape: Shape | undefined;
    return {
      key,
      required: node.required?.includes(key) ?? false,
      get shape(): Shape {
        return (shape ??= shapeOf(inner, root));
      },
    };
  });
}

export function shapeOf(given: Schema, root: Schema): Shape {
  const node = resolved(given, root);
  const some = (node.anyOf ?? []).filter((branch) => branch.type !== "null");
  const nullable = node.anyOf !== undefined && some.length < node.anyOf.length;
  const meaning: Meaning = {
    help: (node.description ?? "").replace(/\s+/g, " "),
    default: node.default,
    nullable,
    label: labelOf(node),
  };
  if (node.anyOf === undefined) return { ...meaning, ...plain(node, root) };
  const [only, ...others] = some;
  if (only !== undefined && others.length === 0) {
    const inner = shapeOf(only, root);
    return { ...inner, ...meaning, help: meaning.help || inner.help, label: inner.label };
  }
  const branches = some.flatMap((branch) => {
    const shape = shapeOf(branch, root);
    return shape.kind === "either" && !shape.nullable ? shape.branches : [shape]; // a choice in a choice is one choice
  });
  const merged = together(branches);
  return { ...meaning, ...(merged ?? { kind: "either", branches }) };
}

type Bare<T> = T extends Shape ? Omit<T, keyof Meaning> : never;

function plain(node: Schema, root: Schema): Bare<Shape> {
  if (node.const !== undefined) return { kind: "choice", options: [node.const] };
  if (node.enum !== undefined) return { kind: "choice", options: node.enum };
  switch (node.type) {
    case "boolean":
      return { kind: "choice", options: [true, false] };
    case "integer":
    case "number":
      return { kind: "number", whole: node.type === "integer", bounds: boundsOf(node) };
    case "string":
      return { kind: "text" };
    case "array": {
      const places = (node.prefixItems ?? []).map((place) => shapeOf(place, root));
      return { kind: "list", places, item: places[0] ?? shapeOf(node.items ?? {}, root) };
    }
    case "object":
      if (node.properties) return { kind: "section", fields: fieldsOf(node, root) };
      if (typeof node.additionalProperties === "object") {
        return { kind: "table", value: shapeOf(node.additionalProperties, root) };
      }
      return { kind: "free" };
    default:
      return { kind: "free" };
  }
}

/** Branches that one control can offer: all of them lists of values, or numbers of two kinds. */
function together(branches: readonly Shape[]): Bare<Shape> | null {
  const options: Json[] = [];
  for (const branch of branches) {
    if (branch.kind !== "choice") {
      const numbers = branches.filter((other) => other.kind === "number");
      return numbers.length === branches.length ? { kind: "number", whole: false, bounds: "" } : null;
    }
    options.push(...branch.options);
  }
  return { kind: "choice", options };
}

function resolved(node: Schema, root: Schema): Schema {
  const { $ref, ...own } = node;
  if ($ref === undefined) return node;
  const target = root.$defs?.[$ref.replace("#/$defs/", "")];
  if (target === undefined) throw new Error(`the schema refers to ${$ref}, which it does not hold`);
  return { ...resolved(target, root), ...own };
}

function boundsOf(node: Schema): string {
  const bounds = [
    node.exclusiveMinimum === undefined ? "" : `> ${node.exclusiveMinimum}`,
    node.minimum === undefined ? "" : `≥ ${node.minimum}`,
    node.exclusiveMaximum === undefined ? "" : `< ${short(node.exclusiveMaximum)}`,
    node.maximum === undefined ? "" : `≤ ${short(node.maximum)}`,
  ];
  return bounds.filter(Boolean).join(", ");
}

const short = (value: number): string => (value >= 1e9 ? value.toExponential().replace("+", "") : String(value));

/** A section that is told apart by its `kind` is called after that, another one after its class. */
function labelOf(node: Schema): string {
  const kinds = node.properties?.["kind"]?.enum ?? [];
  if (kinds.length > 0 && kinds.length < 4) return kinds.join(", ");
  const title = (node.title ?? "").replace(/Config$/, "");
  if (title) return title.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
  return { string: "text", integer: "number", object: "section", array: "list" }[node.type ?? ""] ?? node.type ?? "value";
}

/** Whether a value could be of a shape: which branch of a choice is taken. */
export function fits(value: Json | undefined, shape: Shape): boolean {
  if (value === undefined) return false;
  switch (shape.kind) {
    case "number":
      return typeof value === "number";
    case "text":
      return typeof value === "string";
    case "choice":
      return shape.options.some((option) => option === value);
    case "list":
      return Array.isArray(value);
    case "section":
      return isSection(value) && fitsKind(value, shape.fields);
    case "table":
      return isSection(value);
    case "either":
      return shape.branches.some((branch) => fits(value, branch));
    case "free":
      return true;
  }
}

function fitsKind(value: { [key: string]: Json }, fields: readonly Field[]): boolean {
  const kind = fields.find((field) => field.key === "kind");
  return kind === undefined || value["kind"] === undefined || fits(value["kind"], kind.shape);
}

export function isSection(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a shape begins with when it is added: its default, or the least that can be filled in. */
export function first(shape: Shape): Json {
  if (shape.default !== undefined && shape.default !== null) return shape.default;
  switch (shape.kind) {
    case "section": {
      const needed = shape.fields.filter((field) => field.required || field.key === "kind");
      return Object.fromEntries(needed.map((field) => [field.key, first(field.shape)]));
    }
    case "number":
      return shape.bounds.startsWith("> 0") || shape.bounds.startsWith("≥ 1") ? 1 : 0;
    case "text":
      return "";
    case "choice":
      return shape.options[0] ?? null;
    case "list":
      return shape.places.map(first);
    case "table":
      return {};
    case "either":
      return shape.branches[0] ? first(shape.branches[0]) : null;
    case "free":
      return {};
  }
}

/** `policy.network.hidden_sizes[1]`, as messages write it. */
export function dotted(path: Path): string {
  return path.map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`)).join("").replace(/^\./, "");
}

export function valueAt(data: Json | undefined, path: Path): Json | undefined {
  let value: Json | undefined = data;
  for (const part of path) {
    if (Array.isArray(value)) value = value[Number(part)];
    else if (isSection(value)) value = value[String(part)];
    else return undefined;
  }
  return value;
}
