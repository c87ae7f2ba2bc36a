/** New experiment: a form from the schema and the YAML beside it. Either can be edited; the text is the truth. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import { act, mayAct, query } from "../../api/client";
import { useDocument } from "../../api/document";
import type { FieldProblem, Run } from "../../api/types";
import { useKeys } from "../../keys";
import { go, href, param, place, setParams } from "../../router";
import { Failed, Loading } from "../../ui/blank";
import { Button, Segments } from "../../ui/button";
import { confirm } from "../../ui/dialog";
import { YamlEditor } from "../../ui/editor";
import { Heading } from "../../ui/heading";
import { attempt, toast } from "../../ui/toast";
import type { ViewProps } from "../../views";
import "../../styles/form.css";
import { Draft, EXPERIMENT } from "../../experiment/draft";
import { Findings, problemCount } from "./findings";
import { FieldsPane, sectionOfField } from "./pane";
import { experimentFields, type Schema } from "../../experiment/fields";

interface Catalog {
  algos: { name: string; summary: string }[];
  envs: { name: string }[];
  presets: { name: string; summary: string; algo: string; env: string }[];
}

export default function New(_props: ViewProps): JSX.Element {
  const draft = useMemo(() => new Draft(EXPERIMENT), []);
  const general = useDocument<Schema>("/schema");
  // The algorithm's own schema has its defaults; while another one is loaded, or none has such a name, the general one holds.
  const known = general.data?.$defs?.[`train.${draft.algo.value}`] !== undefined;
  const own = useDocument<Schema>(known ? `/schema${query({ algo: draft.algo.value })}` : null);
  const schema = own.data ?? general.data;
  const catalog = useDocument<Catalog>("/catalog");
  const reveal = useSignal<number | null>(null);
  const launching = useSignal(false);
  useEffect(() => void draft.open(), [param("preset"), param("from")]);
  const packed = param("draft");
  useEffect(() => {
    if (packed !== draft.packed) void draft.open();
  }, [packed]);
  useEffect(() => () => draft.close(), []);
  const algo = draft.algo.value;
  const fields = useMemo(() => (schema === null ? [] : experimentFields(schema, algo)), [schema, algo]);
  const suggestions = useMemo(() => new Map([["env.id", (catalog.data?.envs ?? []).map((env) => env.name)]]), [catalog.data]);
  const seeds = Math.max(1, Number(param("seeds")) || 1);

  const launch = async (): Promise<void> => {
    if (draft.problems.value.length > 0) {
      toast(`Nothing was launched: ${problemCount(draft.problems.value.length)} to repair first.`, "bad");
      return;
    }
    launching.value = true;
    await attempt(async () => {
      const priority = Number(param("priority")) || 0;
      const { runs, run } = await act<{ runs: Run[]; run: Run }>("POST", "/experiments", { yaml: draft.text.value, seeds, ...(priority === 0 ? {} : { priority }) });
      toast(runs.length > 1 ? `${runs.length} runs of ${run.name} are in the queue.` : `${run.name} is in the queue.`);
      go(runs.length > 1 ? href(["runs"], { q: run.name }) : href(["runs", run.id]));
    });
    launching.value = false;
  };
  useKeys("New experiment", {
    l: ["Launch", () => void launch()],
    y: ["Form or YAML (narrow screens)", () => setParams({ side: param("side") === "yaml" ? "" : "yaml" })],
  });

  const show = (problem: FieldProblem): void => {
    reveal.value = problem.line ?? null;
    setParams({ section: sectionOfField(problem.field), find: "", side: problem.field === "" ? "yaml" : param("side") });
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-field="${CSS.escape(problem.field)}"] :is(input, select)`)?.focus());
  };

  const error = general.error ?? catalog.error;
  if (error) return <Failed error={error} retry={() => (general.reload(), catalog.reload())} />;
  if (schema === null || catalog.data === null) return <Loading what="the settings" />;
  const side = param("side") === "yaml" ? "yaml" : "form";
  return (
    <>
      <Heading title="New experiment">
        <PresetChoice catalog={catalog.data} draft={draft} />
        <label class="small-field">
          <span>Seeds</span>
          <input class="field numeric" type="number" min={1} max={1000} value={seeds} onInput={(event) => setParams({ seeds: event.currentTarget.value === "1" ? "" : event.currentTarget.value })} />
        </label>
        <label class="small-field">
          <span>Priority</span>
          <input class="field numeric" type="number" value={param("priority") || "0"} onInput={(event) => setParams({ priority: event.currentTarget.value === "0" ? "" : event.currentTarget.value })} />
        </label>
        <Button kind="primary" icon="play" label="Launch (l)" disabled={launching.value || draft.loading.value || !mayAct()} onClick={() => void launch()}>
          {seeds > 1 ? `Launch ${seeds} runs` : "Launch"}
        </Button>
      </Heading>
      <Findings draft={draft} onShow={show} />
      <div class="narrow-only side-choice">
        <Segments label="What is shown" value={side} options={[["form", "Form"], ["yaml", "YAML"]]} onChange={(value) => setParams({ side: value === "form" ? "" : value })} />
      </div>
      <div class={`new-experiment fill showing-${side}`}>
        <FieldsPane draft={draft} fields={fields} suggestions={suggestions} query={place.value.query} />
        <section class="yaml-side" aria-label="YAML">
          <YamlEditor
            label="The experiment as YAML"
            text={draft.text.value}
            problems={draft.problems.value.flatMap(({ line, message, field }) => (line ? [{ line, message: field ? `${field}: ${message}` : message }] : []))}
            reveal={reveal.value}
            onChange={(text) => draft.write(text)}
          />
        </section>
      </div>
    </>
  );
}

function PresetChoice({ catalog, draft }: { catalog: Catalog; draft: Draft }): JSX.Element {
  const chosen = param("from") ? "" : param("preset") || EXPERIMENT.preset;
  const algos = [...new Set(catalog.presets.map((preset) => preset.algo))].sort();
  const choose = async (name: string): Promise<void> => {
    if (draft.edited.value && !(await confirm({ title: "Leave this draft?", detail: "Your changes are lost. The address of this page keeps them: copy it first if you want to come back.", confirm: "Leave the draft" }))) {
      return;
    }
    setParams({ preset: name === EXPERIMENT.preset ? "" : name, from: "", draft: "" }, false);
    if (name === chosen) void draft.open();
  };
  return (
    <label class="small-field">
      <span>Begin with</span>
      <select class="field preset" value={chosen} onChange={(event) => void choose(event.currentTarget.value)}>
        {chosen === "" && <option value="">run {param("from")}</option>}
        {algos.map((algo) => (
          <optgroup key={algo} label={algo}>
            {catalog.presets
              .filter((preset) => preset.algo === algo)
              .map((preset) => (
                <option key={preset.name} value={preset.name} title={preset.summary}>
                  {preset.name}
                </option>
              ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}
