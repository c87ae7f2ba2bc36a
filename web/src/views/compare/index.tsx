/** Compare: groups of runs as curves with bands, as statistics, and by what their configs differ in. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import { explain, get, query } from "../../api/client";
import { useDocument } from "../../api/document";
import type { ConfigAnswer, MetricNames } from "../../api/types";
import { Chart } from "../../chart/chart";
import { type Curve, colourOf } from "../../chart/curve";
import { useKeys } from "../../keys";
import { param, setParams } from "../../router";
import { Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import type { Json } from "../../experiment/fields";
import { flow } from "../../experiment/values";
import { Heading } from "../../ui/heading";
import { Icon } from "../../ui/icon";
import type { ViewProps } from "../../views";
import "./compare.css";
import { type Config, differences } from "./differences";
import { Picker } from "./picker";
import { Table } from "./table";
import { type Comparison, type Curves, type GroupResult, refsOfAll } from "./types";

const POINTS = 400;

const chosenGroups = (): string[] => param("runs").split(",").filter(Boolean);
const choose = (groups: readonly string[]): void => setParams({ runs: groups.join(",") });

export default function Compare(_props: ViewProps): JSX.Element {
  const groups = chosenGroups();
  useKeys("Compare", {
    s: ["Single runs behind the bands", () => setParams({ single: param("single") ? "" : "1" })],
    L: ["Logarithmic axis", () => setParams({ log: param("log") ? "" : "1" })],
  });
  return (
    <>
      <Heading title="Compare" sub={groups.length > 0 ? `${groups.length} ${groups.length === 1 ? "group" : "groups"}` : undefined} />
      <div class="body compare">
        <Picker chosen={groups} onChange={choose} />
        {groups.length > 0 && <Compared groups={groups} />}
      </div>
    </>
  );
}

function Compared({ groups }: { groups: readonly string[] }): JSX.Element {
  const metric = param("metric");
  const asked = { runs: groups.join(","), metric, minimize: param("minimize") ? "true" : "" };
  const isOurs = ({ topic, data }: { topic: string; data: Record<string, unknown> }): boolean => topic === "run" && (groups.includes(String(data["name"])) || groups.includes(String(data["id"])));
  const comparison = useDocument<Comparison>(`/compare${query(asked)}`, isOurs);
  const curves = useDocument<Curves>(`/curves${query({ runs: asked.runs, metric, points: POINTS })}`, isOurs);
  const single = param("single") !== "";
  const drawn = useMemo(() => (curves.data === null ? [] : curvesOf(curves.data, single)), [curves.data, single]);
  if (comparison.error) return <Failed error={comparison.error} retry={comparison.reload} />;
  if (comparison.data === null) return <Loading what="the comparison" />;
  const { data } = comparison;
  return (
    <>
      <section class="panel">
        <header>
          <h2>{curves.data?.metric ?? data.metric}</h2>
          <span class="faint compare-what">IQM and 95 % band over the runs of a group</span>
          <div class="actions">
            <MetricChoice groups={data.groups} metric={metric} />
            <Button kind="quiet" pressed={param("minimize") !== ""} label="Less of the metric is better" onClick={() => setParams({ minimize: param("minimize") ? "" : "1" })}>
              Less is better
            </Button>
            <Button kind="quiet" pressed={single} label="Single runs behind the bands (s)" onClick={() => setParams({ single: single ? "" : "1" })}>
              Single runs
            </Button>
            <Button kind="quiet" pressed={param("log") !== ""} label="Logarithmic axis (L)" onClick={() => setParams({ log: param("log") ? "" : "1" })}>
              Log
            </Button>
          </div>
        </header>
        <div class="inside">
          {curves.error ? <Failed error={curves.error} retry={curves.reload} /> : <Chart label={curves.data?.metric ?? data.metric} curves={drawn} height={320} log={param("log") !== ""} legend />}
        </div>
        <Notes notes={curves.data?.notes ?? []} />
      </section>
      <section class="panel">
        <header>
          <h2>Statistics</h2>
          <span class="faint">each run counts by its last {data.metric}; intervals by bootstrap over runs</span>
        </header>
        <Table comparison={data} onFirst={(group) => choose(refsOfAll([group, ...data.groups.filter((other) => other !== group)], groups))} onRemove={(group) => choose(refsOfAll(data.groups.filter((other) => other !== group), groups))} />
        <Notes notes={data.notes} />
      </section>
      <Differences groups={data.groups} />
    </>
  );
}

/** What a reader should know before believing the picture or the numbers above it. */
function Notes({ notes }: { notes: readonly string[] }): JSX.Element | null {
  if (!notes.length) return null;
  return (
    <ul class="notes">
      {notes.map((note) => (
        <li key={note}>
          <Icon name="warning" size={14} /> {note}
        </li>
      ))}
    </ul>
  );
}

/** Bands and middles; behind them, if they are wanted, the single runs. */
function curvesOf({ groups }: Curves, single: boolean): Curve[] {
  const middles = groups.map((group, index): Curve => {
    const band = group.low !== null && group.high !== null ? { low: group.low, high: group.high } : {};
    return { name: group.name, colour: index + 1, x: group.x, y: group.iqm, ...band };
  });
  if (!single) return middles;
  const runs = groups.flatMap((group, index) => group.runs.map((run): Curve => ({ name: `${group.name} seed ${run.seed}`, colour: index + 1, x: run.x, y: run.y, faint: true })));
  return [...runs, ...middles];
}

function MetricChoice({ groups, metric }: { groups: readonly GroupResult[]; metric: string }): JSX.Element {
  const run = groups.flatMap((group) => group.runs)[0];
  const names = useDocument<MetricNames>(run ? `/runs/${run.id}/metrics` : null);
  const known = (names.data?.names ?? []).map(({ name }) => name);
  if (metric && !known.includes(metric)) known.unshift(metric);
  return (
    <select class="field" aria-label="Metric" value={metric} onChange={(event) => setParams({ metric: event.currentTarget.value })}>
      <option value="">automatic</option>
      {known.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

const NoSetting = (): JSX.Element => (
  <span class="faint" title="not a setting of this group">
    <span aria-hidden="true">–</span>
    <span class="visually-hidden">not a setting of this group</span>
  </span>
);

function Differences({ groups }: { groups: readonly GroupResult[] }): JSX.Element {
  const configs = useSignal<Config[] | null>(null);
  const failure = useSignal("");
  const ids = groups.flatMap((group) => group.runs.slice(0, 1).map((run) => run.id));
  useEffect(() => {
    let isCurrent = true;
    Promise.all(ids.map((id) => get<ConfigAnswer>(`/runs/${id}/config`))).then(
      (answers) => {
        if (isCurrent) configs.value = answers.map((answer) => answer.config);
      },
      (error: unknown) => {
        if (isCurrent) failure.value = explain(error);
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [ids.join()]);
  const rows = configs.value === null || configs.value.length !== ids.length ? null : differences(configs.value);
  const withRuns = groups.filter((group) => group.runs.length > 0);
  return (
    <section class="panel">
      <header>
        <h2>Config differences</h2>
        <span class="faint">by the first run of each group; names and seeds are left out</span>
      </header>
      {failure.value && <p class="inside wrong">{failure.value}</p>}
      {rows !== null && rows.length === 0 && <p class="inside soft">{groups.length < 2 ? "Add another group to see what they differ in." : "None: the groups have the same settings."}</p>}
      {rows !== null && rows.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Differences of the configs">
          <table class="plain">
            <thead>
              <tr>
                <th>Setting</th>
                {withRuns.map((group) => (
                  <th key={group.name}>
                    <i class="dot" style={{ "--dot": colourOf(groups.indexOf(group) + 1) }} /> {group.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ field, values }) => (
                <tr key={field}>
                  <th scope="row" class="mono setting">
                    {field}
                  </th>
                  {values.map((value, index) => (
                    <td key={index} class={JSON.stringify(value) === JSON.stringify(values[0]) ? "mono soft" : "mono"}>
                      {value === undefined ? <NoSetting /> : flow(value as Json)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
