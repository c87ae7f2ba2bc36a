/* One control for one value. What is typed goes into the text as it is: what is wrong with it, the server says. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";

import { Button } from "../../ui/button";
import type { Draft } from "../../experiment/draft";
import { fits, first, valueAt, type Json, type Path, type Shape } from "../../experiment/fields";
import { read } from "../../experiment/text";
import { flow } from "../../experiment/values";

export interface ControlProps {
  draft: Draft;
  path: Path;
  shape: Shape;
  id: string;
  described?: string | undefined;
  required?: boolean;
  suggestions?: readonly string[] | undefined;
}

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

/** Whether a value of this shape is written on one line of text. */
export function isLine(shape: Shape): boolean {
  if (shape.kind === "either") return shape.branches.every((branch) => isLine(branch) && branch.kind !== "list");
  if (shape.kind === "list") return shape.item.kind !== "choice" && isLine(shape.item) && shape.item.kind !== "list";
  return shape.kind === "number" || shape.kind === "text" || shape.kind === "choice";
}

export function Control(props: ControlProps): JSX.Element {
  const { shape } = props;
  if (shape.kind === "choice") return <Choice {...props} options={shape.options} />;
  if (shape.kind === "list" || shape.kind === "number" || shape.kind === "text" || (shape.kind === "either" && isLine(shape))) return <Line {...props} />;
  return <Free {...props} />;
}

function lineText(value: Json | undefined): string {
  if (value === undefined) return "";
  if (Array.isArray(value)) return value.map(flow).join(", ");
  return typeof value === "string" ? value : flow(value);
}

function lineValue(text: string, shape: Shape): Json | undefined {
  const word = text.trim();
  if (word === "") return undefined;
  if (word === "null" && shape.nullable) return null;
  if (shape.kind === "list") {
    const items = word.replace(/^\[|\]$/g, "").split(",");
    return items.filter((item) => item.trim() !== "").map((item) => lineValue(item, shape.item) ?? null);
  }
  if (shape.kind === "text") return text;
  if (NUMBER.test(word)) return Number(word);
  return word;
}

function Line({ draft, path, shape, id, described, required, suggestions }: ControlProps): JSX.Element {
  const typed = useSignal<string | null>(null); // as it is being typed, which the text may spell otherwise
  const value = valueAt(draft.data.value, path);
  const options = shape.kind === "either" ? shape.branches.flatMap((branch) => (branch.kind === "choice" ? branch.options.map(String) : [])) : (suggestions ?? []);
  const placeholder = required ? "required" : shape.default === undefined ? "" : shape.default === null ? "null" : lineText(shape.default);
  const isNumber = shape.kind === "number";
  return (
    <>
      <input
        id={id}
        class={`field ${isNumber ? "numeric" : ""}`}
        value={typed.value ?? lineText(value)}
        placeholder={placeholder}
        inputMode={isNumber ? "decimal" : "text"}
        spellcheck={false}
        autocomplete="off"
        list={options.length > 0 ? `${id}-list` : undefined}
        aria-invalid={draft.problemsAt(path).length > 0}
        aria-describedby={described}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          draft.set(path, lineValue(event.currentTarget.value, shape));
        }}
        onBlur={() => (typed.value = null)}
      />
      {options.length > 0 && (
        <datalist id={`${id}-list`}>
          {options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
    </>
  );
}

function Choice({ draft, path, shape, id, described, required, options }: ControlProps & { options: readonly Json[] }): JSX.Element {
  const value = valueAt(draft.data.value, path);
  const all: Json[] = shape.nullable ? [...options, null] : [...options];
  if (value !== undefined && !all.includes(value)) all.unshift(value);
  const shown = value ?? (value === null ? null : shape.default);
  return (
    <select
      id={id}
      class="field"
      value={shown === undefined ? "" : JSON.stringify(shown)}
      aria-invalid={draft.problemsAt(path).length > 0}
      aria-describedby={described}
      onChange={(event) => {
        const chosen = event.currentTarget.value === "" ? undefined : (JSON.parse(event.currentTarget.value) as Json);
        draft.set(path, chosen === shape.default && !required ? undefined : chosen);
      }}
    >
      {shown === undefined && <option value="">{required ? "choose …" : "not set"}</option>}
      {all.map((option) => (
        <option key={JSON.stringify(option)} value={JSON.stringify(option)}>
          {option === null ? "null" : String(option)}
          {option === shape.default ? "  (default)" : ""}
        </option>
      ))}
    </select>
  );
}

/** Anything, as YAML on one line. What cannot be read yet stays in the field and is said below it. */
function Free({ draft, path, shape, id, described }: ControlProps): JSX.Element {
  const typed = useSignal<string | null>(null);
  const wrong = useSignal("");
  const value = valueAt(draft.data.value, path);
  return (
    <>
      <input
        id={id}
        class="field mono"
        value={typed.value ?? (value === undefined ? "" : flow(value))}
        placeholder={shape.default === undefined ? "{ name: value }" : flow(shape.default)}
        spellcheck={false}
        autocomplete="off"
        aria-invalid={wrong.value !== "" || draft.problemsAt(path).length > 0}
        aria-describedby={described}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          const { data, problem } = read(event.currentTarget.value);
          wrong.value = problem?.message ?? "";
          if (problem === null) draft.set(path, event.currentTarget.value.trim() === "" ? undefined : data);
        }}
        onBlur={() => {
          if (wrong.value === "") typed.value = null;
        }}
      />
      {wrong.value && (
        <p class="wrong" role="alert">
          {wrong.value}
        </p>
      )}
    </>
  );
}

/** Which branch of a choice between shapes is taken; the branch itself is drawn by the caller. */
export function BranchChoice({ draft, path, shape, id, described }: ControlProps): JSX.Element {
  const value = valueAt(draft.data.value, path);
  const branches = shape.kind === "either" ? shape.branches : [];
  const taken = branches.findIndex((branch) => fits(value ?? shape.default ?? undefined, branch));
  const chosen = value ?? shape.default;
  const branch = branches[taken];
  const selected = branch === undefined ? "" : branch.kind === "choice" ? `${taken}:${JSON.stringify(chosen)}` : String(taken);
  return (
    <select
      id={id}
      class="field"
      value={selected}
      aria-describedby={described}
      data-branches={branches.length}
      onChange={(event) => {
        const [index, word] = event.currentTarget.value.split(/:(.*)/s);
        if (event.currentTarget.value === "") draft.set(path, undefined);
        else if (word !== undefined) draft.set(path, JSON.parse(word) as Json);
        else draft.set(path, firstOf(branches[Number(index)]));
      }}
    >
      <option value="">{shape.default === null || shape.default === undefined ? "not set" : `default (${lineText(shape.default)})`}</option>
      {branches.map((option, index) =>
        option.kind === "choice" ? (
          option.options.map((word) => (
            <option key={`${index}${JSON.stringify(word)}`} value={`${index}:${JSON.stringify(word)}`}>
              {String(word)}
            </option>
          ))
        ) : (
          <option key={index} value={String(index)}>
            {option.label || option.kind}
          </option>
        ),
      )}
    </select>
  );
}

export function firstOf(shape: Shape | undefined): Json {
  const value = shape === undefined ? null : first(shape);
  // A section that is empty would be taken away again with the next edit beside it.
  if (shape?.kind === "section" && value !== null && typeof value === "object" && Object.keys(value).length === 0) {
    const [field] = shape.fields;
    return field === undefined ? value : { [field.key]: first(field.shape) };
  }
  return value;
}


export function AddEntry({ label, onAdd }: { label: string; onAdd: (name: string) => void }): JSX.Element {
  const name = useSignal("");
  const add = (): void => {
    if (name.value.trim() === "") return;
    onAdd(name.value.trim());
    name.value = "";
  };
  return (
    <div class="add-entry">
      <input
        class="field mono"
        aria-label={label}
        placeholder="name"
        value={name.value}
        spellcheck={false}
        onInput={(event) => (name.value = event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          add();
        }}
      />
      <Button icon="add" onClick={add}>
        Add
      </Button>
    </div>
  );
}
