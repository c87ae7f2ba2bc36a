/** A new sweep from YAML, checked as it is typed. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import { act, mayAct } from "../../api/client";
import { useDocument } from "../../api/document";
import { Draft, SWEEP } from "../../experiment/draft";
import { useKeys } from "../../keys";
import { go, href, param, setParams } from "../../router";
import { Button } from "../../ui/button";
import { YamlEditor } from "../../ui/editor";
import { Heading } from "../../ui/heading";
import { attempt } from "../../ui/toast";
import "../../styles/form.css";
import { Findings } from "../new/findings";
import type { SweepDocument } from "./types";

export default function Launch(): JSX.Element {
  const draft = useMemo(() => new Draft(SWEEP), []);
  const catalog = useDocument<{ sweeps?: { name: string; summary: string }[] }>("/catalog");
  const reveal = useSignal<number | null>(null);
  const launching = useSignal(false);
  useEffect(() => void draft.open(), [param("preset")]);
  const packed = param("draft");
  useEffect(() => {
    if (packed !== draft.packed) void draft.open();
  }, [packed]);
  useEffect(() => () => draft.close(), []);
  const launch = async (): Promise<void> => {
    launching.value = true;
    await attempt(async () => {
      const at = Number(param("at_once")) || null;
      const sweep = await act<SweepDocument>("POST", "/sweeps", { yaml: draft.text.value, ...(at === null ? {} : { max_concurrent: at }) });
      go(href(["sweeps", sweep.name]));
    }, "The sweep has begun.");
    launching.value = false;
  };
  useKeys("New sweep", { l: ["Launch", () => void launch()] });
  const presets = catalog.data?.sweeps ?? [];
  const problems = draft.problems.value;
  return (
    <>
      <Heading title="New sweep">
        {presets.length > 0 && (
          <label class="small-field">
            <span>Begin with</span>
            <select class="field preset" value={param("preset") || SWEEP.preset} onChange={(event) => setParams({ preset: event.currentTarget.value, draft: "" }, false)}>
              {presets.map((preset) => (
                <option key={preset.name} value={preset.name} title={preset.summary}>
                  {preset.name.replace(/^sweep\//, "")}
                </option>
              ))}
            </select>
          </label>
        )}
        <label class="small-field">
          <span>Runs at once</span>
          <input class="field numeric" type="number" min={1} placeholder="auto" value={param("at_once")} onInput={(event) => setParams({ at_once: event.currentTarget.value })} />
        </label>
        <Button kind="primary" icon="play" label="Launch (l)" disabled={launching.value || problems.length > 0 || !mayAct()} onClick={() => void launch()}>
          Launch
        </Button>
      </Heading>
      <Findings draft={draft} onShow={(problem) => (reveal.value = problem.line ?? null)} />
      <div class="new-experiment only-yaml fill">
        <section class="yaml-side" aria-label="YAML">
          <YamlEditor
            label="The sweep as YAML"
            text={draft.text.value}
            problems={problems.flatMap(({ line, message, field }) => (line ? [{ line, message: field ? `${field}: ${message}` : message }] : []))}
            reveal={reveal.value}
            onChange={(text) => draft.write(text)}
          />
        </section>
      </div>
    </>
  );
}
