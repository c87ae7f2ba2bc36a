/* The form's side of a new experiment: the sections, or what the search finds, or what the draft sets. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { param, setParams } from "../../router";
import { FieldView } from "./field";
import { written, type Draft } from "../../experiment/draft";
import { dotted, isSection, valueAt, type Field, type Path, type Shape } from "../../experiment/fields";

const GENERAL = "general"; // settings that stand above all sections

interface Placed {
  path: Path;
  shape: Shape;
  required: boolean;
}

interface PaneProps {
  draft: Draft;
  fields: readonly Field[];
  suggestions: ReadonlyMap<string, readonly string[]>;
  query: URLSearchParams;
}

export function sectionOfField(field: string): string {
  const [head = "", ...rest] = field.split(/[.[]/);
  return rest.length > 0 ? head : field === "" ? "" : SECTIONLESS.has(head) ? GENERAL : head;
}

const SECTIONLESS = new Set(["name"]);

export function FieldsPane({ draft, fields, suggestions, query }: PaneProps): JSX.Element {
  const find = query.get("find") ?? "";
  const chosen = query.get("section") ?? "";
  const general = fields.filter((field) => SECTIONLESS.has(field.key));
  const sections = fields.filter((field) => !SECTIONLESS.has(field.key));
  const data = draft.data.value;
  const wrong = (name: string): boolean => draft.problems.value.some((problem) => sectionOfField(problem.field) === name);
  const item = (name: string, title: string, count: number): JSX.Element => (
    <button type="button" key={name} aria-current={find === "" && name === chosen ? "true" : undefined} class={wrong(name) ? "wrong" : ""} onClick={() => setParams({ section: name, find: "" })}>
      {title}
      {count > 0 && <span class="count">{count}</span>}
    </button>
  );
  const items = useRef<HTMLDivElement>(null);
  // On a narrow screen they are one line that scrolls.
  useEffect(() => items.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [chosen, find]);
  return (
    <section class="form-side" aria-label="Settings">
      <nav class="sections" aria-label="Sections of the experiment">
        <input
          type="search"
          class="field"
          aria-label="Find a setting"
          placeholder="Find a setting"
          value={find}
          onInput={(event) => setParams({ find: event.currentTarget.value })}
        />
        <div class="items" ref={items}>
          {item("", "In this experiment", written(data))}
          {item(GENERAL, GENERAL, general.reduce((sum, field) => sum + written(valueAt(data, [field.key])), 0))}
          {sections.map((field) => item(field.key, field.key, written(valueAt(data, [field.key]))))}
        </div>
      </nav>
      <div class="settings" tabIndex={-1}>
        {find ? (
          <Found draft={draft} fields={fields} suggestions={suggestions} words={find} />
        ) : chosen === "" ? (
          <InThis draft={draft} fields={fields} suggestions={suggestions} />
        ) : (
          (chosen === GENERAL ? general : sections.filter((field) => field.key === chosen)).map((field) => (
            <FieldView key={`${param("preset")}${field.key}`} draft={draft} path={[field.key]} shape={field.shape} required={field.required} suggestions={suggestions} />
          ))
        )}
      </div>
    </section>
  );
}

/** Settings by their own names, sections opened up. */
function flat(fields: readonly Field[], above: Path = []): Placed[] {
  return fields.flatMap(({ key, shape, required }) => {
    const path = [...above, key];
    return shape.kind === "section" && !shape.nullable ? flat(shape.fields, path) : [{ path, shape, required }];
  });
}

function Named({ draft, placed, suggestions }: { draft: Draft; placed: readonly Placed[]; suggestions: ReadonlyMap<string, readonly string[]> }): JSX.Element {
  const sections = [...new Set(placed.map(({ path }) => dotted(path.slice(0, -1))))];
  return (
    <>
      {sections.map((section) => (
        <fieldset class="group" key={section}>
          <legend class="mono">{section || GENERAL}</legend>
          {placed
            .filter(({ path }) => dotted(path.slice(0, -1)) === section)
            .map(({ path, shape, required }) => (
              <FieldView key={dotted(path)} draft={draft} path={path} shape={shape} required={required} suggestions={suggestions} />
            ))}
        </fieldset>
      ))}
    </>
  );
}

/** What the text sets, and what it must set. */
function InThis({ draft, fields, suggestions }: Omit<PaneProps, "query">): JSX.Element {
  const data = draft.data.value;
  const placed = flat(fields).filter(({ path, required }) => required || valueAt(data, path) !== undefined);
  const known = isSection(data) ? Object.keys(data).filter((key) => !fields.some((field) => field.key === key)) : [];
  return (
    <>
      <Named draft={draft} placed={placed} suggestions={suggestions} />
      {known.length > 0 && <p class="help">Not settings of an experiment: {known.join(", ")}</p>}
    </>
  );
}

function Found({ draft, fields, suggestions, words }: Omit<PaneProps, "query"> & { words: string }): JSX.Element {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = (text: string): boolean => wanted.every((word) => text.toLowerCase().includes(word));
  const all = flat(fields);
  const byName = all.filter(({ path }) => matching(dotted(path)));
  const others = all.filter(({ path, shape }) => !byName.some((found) => found.path === path) && matching(`${dotted(path)} ${shape.help}`));
  const found = [...byName, ...others];
  if (found.length === 0) {
    return (
      <p class="help">
        No setting of {draft.algo.value || "this experiment"} has “{words}” in its name or its meaning.
      </p>
    );
  }
  return <Named draft={draft} placed={found} suggestions={suggestions} />;
}
