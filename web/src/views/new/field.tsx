/* A setting with its name, its control, what it means, and what is wrong with it; sections and lists hold more of them. */
import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";

import { Button } from "../../ui/button";
import { AddEntry, BranchChoice, Control, firstOf, isLine, type ControlProps } from "./controls";
import type { Draft } from "../../experiment/draft";
import { dotted, first, fits, isSection, valueAt, type Field, type Json, type Path, type Shape } from "../../experiment/fields";

export interface FieldProps {
  draft: Draft;
  path: Path;
  shape: Shape;
  required?: boolean;
  /** The name above the control; by default the last part of the path. */
  name?: string;
  suggestions?: ReadonlyMap<string, readonly string[]>;
  /** Takes an entry out of its list or table. */
  onRemove?: () => void;
}

/** A long name breaks between its words. */
const breakable = (name: string): ComponentChildren => name.split(/(?<=_)/).flatMap((word, index) => (index ? [<wbr key={index} />, word] : [word]));

export function FieldView(props: FieldProps): JSX.Element {
  const { shape } = props;
  if (isLine(shape) && !(shape.kind === "list" && shape.places.length > 0)) return <Row {...props} />;
  switch (shape.kind) {
    case "section":
      return <Section {...props} fields={shape.fields} />;
    case "list":
      return <List {...props} item={shape.item} places={shape.places} />;
    case "table":
      return <Table {...props} value={shape.value} />;
    case "either":
      return <Either {...props} branches={shape.branches} />;
    default:
      return <Row {...props} />;
  }
}

function Row(props: FieldProps & { control?: (control: ControlProps) => JSX.Element; children?: ComponentChildren }): JSX.Element {
  const { draft, path, shape, required, onRemove } = props;
  const id = useId();
  const field = dotted(path);
  const value = valueAt(draft.data.value, path);
  const problems = draft.problemsAt(path);
  const help = [shape.help, shape.kind === "number" && shape.bounds ? `(${shape.bounds.replaceAll(" ", "\u00a0")})` : ""].filter(Boolean).join(" ");
  const control: ControlProps = {
    draft,
    path,
    shape,
    id,
    required: required ?? false,
    described: help || problems.length > 0 ? `${id}-help` : undefined,
    suggestions: props.suggestions?.get(field),
  };
  return (
    <div class={`setting ${value === undefined ? "" : "set"} ${problems.length > 0 ? "invalid" : ""}`} data-field={field}>
      <label for={id} class="mono">
        {breakable(props.name ?? String(path.at(-1)))}
      </label>
      <div class="control">
        {props.control ? props.control(control) : <Control {...control} />}
        {onRemove ? (
          <Button kind="quiet" icon="close" label={`Remove ${field}`} onClick={onRemove} />
        ) : (
          value !== undefined && !required && <Button kind="quiet" icon="reset" label={`Back to the default: ${field}`} onClick={() => draft.set(path, undefined)} />
        )}
      </div>
      <div class="about" id={`${id}-help`}>
        {problems.map((problem) => (
          <p class="wrong" key={problem.message}>
            {problem.message}
          </p>
        ))}
        {help && <Help text={help} />}
      </div>
      {props.children}
    </div>
  );
}

/** Descriptions are written for the reference pages: code in back quotes, links to other pages. */
export function Help({ text }: { text: string }): JSX.Element {
  const parts = text.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").split("`");
  return <p class="help">{parts.map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</p>;
}

function Problems({ draft, path }: { draft: Draft; path: Path }): JSX.Element {
  return (
    <>
      {draft.problemsAt(path).map((problem) => (
        <p class="wrong" key={problem.message}>
          {problem.message}
        </p>
      ))}
    </>
  );
}

function Group(props: FieldProps & { add?: (() => void) | undefined; children?: ComponentChildren }): JSX.Element {
  const { draft, path, shape, onRemove } = props;
  const field = dotted(path);
  const isOptional = shape.nullable && valueAt(draft.data.value, path) !== undefined;
  const remove = onRemove ?? (isOptional ? () => draft.set(path, undefined) : undefined);
  return (
    <fieldset class="group" data-field={field}>
      <legend class="mono">{props.name ?? field}</legend>
      <div class="group-head">
        {shape.help && <Help text={shape.help} />}
        {props.add && (
          <span data-add={field}>
            <Button icon="add" label={`Add ${field}`} onClick={props.add}>
              Add
            </Button>
          </span>
        )}
        {remove && <Button kind="quiet" icon="close" label={`Remove ${field}`} onClick={remove} />}
      </div>
      <Problems draft={draft} path={path} />
      {props.children}
    </fieldset>
  );
}

function Section(props: FieldProps & { fields: readonly Field[] }): JSX.Element {
  const { draft, path, shape, fields } = props;
  const value = valueAt(draft.data.value, path);
  const isThere = !shape.nullable || isSection(value);
  const add = (): void => draft.set(path, firstOf({ ...shape, default: undefined }));
  return (
    <Group {...props} add={isThere ? undefined : add}>
      {isThere && <Fields {...props} fields={fields} />}
    </Group>
  );
}

export function Fields(props: Omit<FieldProps, "shape" | "required"> & { fields: readonly Field[] }): JSX.Element {
  return (
    <>
      {props.fields.map((field) => (
        <FieldView key={field.key} draft={props.draft} path={[...props.path, field.key]} shape={field.shape} required={field.required} {...(props.suggestions ? { suggestions: props.suggestions } : {})} />
      ))}
    </>
  );
}

function List(props: FieldProps & { item: Shape; places: readonly Shape[] }): JSX.Element {
  const { draft, path, shape, item, places } = props;
  const value = valueAt(draft.data.value, path);
  const entries: Json[] = Array.isArray(value) ? value : [];
  if (places.length > 0) {
    const add = (): void => draft.set(path, places.map(first));
    return (
      <Group {...props} add={entries.length === 0 ? add : undefined}>
        {entries.map((_, index) => (
          <FieldView key={index} draft={draft} path={[...path, index]} shape={places[index] ?? item} name={`[${index}]`} required />
        ))}
      </Group>
    );
  }
  const add = (): void => (entries.length > 0 ? draft.set([...path, entries.length], firstOf(item)) : draft.set(path, [firstOf(item)]));
  const remove = (index: number): void => draft.set(path, entries.length === 1 ? undefined : entries.filter((_, other) => other !== index));
  return (
    <Group {...props} shape={{ ...shape, nullable: false }} add={add}>
      {entries.map((_, index) => (
        <FieldView key={index} draft={draft} path={[...path, index]} shape={item} name={`[${index}]`} onRemove={() => remove(index)} />
      ))}
    </Group>
  );
}

function Table(props: FieldProps & { value: Shape }): JSX.Element {
  const { draft, path } = props;
  const value = valueAt(draft.data.value, path);
  const names = isSection(value) ? Object.keys(value) : [];
  const field = dotted(path);
  return (
    <Group {...props}>
      {names.map((name) => (
        <FieldView key={name} draft={draft} path={[...path, name]} shape={props.value} name={name} onRemove={() => draft.set([...path, name], undefined)} />
      ))}
      <div data-add-entry={field}>
        <AddEntry label={`New entry of ${field}`} onAdd={(name) => draft.set([...path, name], firstOf(props.value))} />
      </div>
    </Group>
  );
}

function Either(props: FieldProps & { branches: readonly Shape[] }): JSX.Element {
  const { draft, path, branches } = props;
  const value = valueAt(draft.data.value, path);
  const branch = branches.find((candidate) => fits(value, candidate));
  return (
    <Row {...props} control={(control) => <BranchChoice {...control} />}>
      {branch !== undefined && branch.kind !== "choice" && (
        <div class="branch">{branch.kind === "section" ? <Fields draft={draft} path={path} fields={branch.fields} /> : <FieldView draft={draft} path={path} shape={{ ...branch, help: "" }} name={branch.label} required />}</div>
      )}
    </Row>
  );
}
