/** The curves of a run: return and evaluation in one large picture, every other metric in its own. */
import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { type Artifact, isActive, type RunDetail, type Series } from "../../api/types";
import { Chart } from "../../chart/chart";
import type { Curve } from "../../chart/curve";
import { setZoom, type Zoom, zoom } from "../../chart/zoom";
import { useKeys } from "../../keys";
import { param, setParams } from "../../router";
import { Blank, Failed, Loading } from "../../ui/blank";
import { Button, Segments } from "../../ui/button";
import { measured, number } from "../../ui/format";
import type { Curves, SeriesByName } from "./series";
import { Videos } from "./videos";

/** Each of these is part of the large picture, or a number that says how another one was made. */
const IN_THE_LARGE = /^(rollout\/return_mean|eval\/return_(mean|std|median|iqm|ci_low|ci_high|min|max)|eval\/episodes)$/;
export const SYSTEM = /^(system|time)\//;
/** As high as the best and the worst episode below each other. */
const BESIDE_VIDEOS = 402;
const SMOOTHINGS = [0, 0.3, 0.6, 0.85];

export type XKind = "steps" | "seconds";

function pointsOf(series: Series, xKind: XKind, start: number): ArrayLike<number> {
  return xKind === "seconds" && series.clock ? series.clock.map((time) => time - start) : series.x;
}

/** When the first value of the run was measured. */
export function startOf(series: SeriesByName): number {
  let first = Infinity;
  for (const { clock } of Object.values(series)) if (clock?.length) first = Math.min(first, clock[0] as number);
  return first;
}

function curveOf(name: string, series: Series, xKind: XKind, start: number, colour = 1): Curve {
  return { name, colour, x: pointsOf(series, xKind, start), y: series.y };
}

function largeCurves(series: SeriesByName, xKind: XKind, start: number): Curve[] {
  const made: Curve[] = [];
  const training = series["rollout/return_mean"];
  if (training) made.push(curveOf("training return", training, xKind, start, 10));
  const evaluation = series["eval/return_mean"];
  const [low, high] = [series["eval/return_ci_low"], series["eval/return_ci_high"]];
  if (evaluation) {
    const banded = low?.y.length === evaluation.y.length && high?.y.length === evaluation.y.length;
    made.push({ ...curveOf("evaluation", evaluation, xKind, start, 1), ...(banded ? { low: low.y, high: high.y } : {}) });
  }
  return made;
}

interface ViewOptions {
  smoothing: number;
  log: boolean;
  xKind: XKind;
  zoom: Zoom;
}

export function readOptions(): ViewOptions {
  const smoothing = Number(param("smooth") || 0);
  return { smoothing: smoothing >= 0 && smoothing <= 1 ? smoothing : 0, log: param("log") === "1", xKind: param("x") === "time" ? "seconds" : "steps", zoom: zoom.value };
}

export function CurveControls({ options }: { options: ViewOptions }) {
  const cycle = (): void => setParams({ smooth: SMOOTHINGS[(SMOOTHINGS.indexOf(options.smoothing) + 1) % SMOOTHINGS.length] || "" });
  useKeys("Curves", {
    m: ["More smoothing, then none", cycle],
    l: ["Logarithmic axis", () => setParams({ log: !options.log })],
    h: ["Steps or time", () => setParams({ x: options.xKind === "steps" ? "time" : "", zoom: "" })],
    0: ["Show the whole run", () => setZoom(null)],
  });
  return (
    <div class="toolbar curve-controls">
      <label class="toolbar smoothing">
        <span class="soft">Smoothing</span>
        <input type="range" min="0" max="1" step="0.05" value={options.smoothing} onInput={(event) => setParams({ smooth: Number(event.currentTarget.value) || "" })} />
        <span class="faint">{options.smoothing.toFixed(2)}</span>
      </label>
      <Segments label="Horizontal axis" value={options.xKind} options={[["steps", "Steps"], ["seconds", "Time"]]} onChange={(value) => setParams({ x: value === "seconds" ? "time" : "", zoom: "" })} />
      <Segments label="Vertical axis" value={options.log ? "log" : "linear"} options={[["linear", "Linear"], ["log", "Log"]]} onChange={(value) => setParams({ log: value === "log" })} />
      <Button kind="quiet" icon="reset" disabled={!options.zoom} onClick={() => setZoom(null)}>
        Whole run
      </Button>
      <span class="grow" />
      <input class="field" type="search" placeholder="Metrics  ( / )" aria-label="Filter metrics" value={param("metric")} onInput={(event) => setParams({ metric: event.currentTarget.value })} />
    </div>
  );
}

export function CurvesTab({ run, curves, artifacts }: { run: RunDetail; curves: Curves; artifacts: readonly Artifact[] }) {
  const options = readOptions();
  const { series } = curves;
  const start = useMemo(() => startOf(series ?? {}), [series]);
  const fine = options.zoom && options.xKind === "steps" ? curves.detail : null;
  const large = useMemo(() => largeCurves({ ...series, ...fine }, options.xKind, start), [series, fine, options.xKind, start]);
  if (!series) return curves.error ? <Failed error={curves.error} /> : <Loading what="curves" />;
  if (!large.length && !Object.keys(series).length)
    return (
      <Blank title="Nothing measured yet">
        <p>{run.state === "QUEUED" ? "The run waits for a free worker." : isActive(run) ? "Curves appear with the first epoch." : "The run ended before its first epoch did."}</p>
      </Blank>
    );
  const videos = artifacts.filter((file) => file.type.startsWith("video/"));
  return (
    <>
      <CurveControls options={options} />
      <div class={videos.length ? "large-and-videos" : ""}>
        {large.length > 0 && (
          <section class="panel">
            <header>
              <h2>Return</h2>
              <span class="faint">{run.eval_interval && run.eval_return !== null ? `last evaluation ${measured(run.eval_return)}, 95 % interval ${measured(run.eval_interval[0])} to ${measured(run.eval_interval[1])}` : "no evaluation yet"}</span>
            </header>
            <div class="inside tight">
              <Chart label="Return" curves={large} height={videos.length > 0 ? BESIDE_VIDEOS : 300} legend {...chartOptions(options)} />
            </div>
          </section>
        )}
        {videos.length > 0 && <Videos run={run.id} files={videos} />}
      </div>
      <Metrics series={series} detail={curves.detail} options={options} start={start} keep={(name) => !SYSTEM.test(name) && !IN_THE_LARGE.test(name)} />
    </>
  );
}

const chartOptions = (options: ViewOptions) => ({ smoothing: options.smoothing, log: options.log, xKind: options.xKind });

interface MetricsProps {
  series: SeriesByName;
  detail: SeriesByName | null;
  options: ViewOptions;
  start: number;
  keep: (name: string) => boolean;
}

const SECTIONS = ["train", "eval", "rollout", "guard", "time", "system"];

function sectionOf(name: string): number {
  const at = SECTIONS.indexOf(name.split("/")[0] as string);
  return at < 0 ? SECTIONS.length : at;
}

/** One chart for each metric: what is learned first, then what guards and measures it. */
export function Metrics({ series, detail, options, start, keep }: MetricsProps) {
  const wanted = param("metric").toLowerCase();
  const names = Object.keys(series)
    .filter((name) => keep(name) && name.toLowerCase().includes(wanted) && (series[name]?.x.length ?? 0) > 0)
    .sort((a, b) => sectionOf(a) - sectionOf(b) || (a < b ? -1 : 1));
  if (!names.length && wanted) return <Blank title="No metric matches" />;
  return (
    <div class="charts">
      {names.map((name) => (
        <Metric key={name} name={name} series={(options.zoom && options.xKind === "steps" ? detail?.[name] : undefined) ?? (series[name] as Series)} options={options} start={start} />
      ))}
    </div>
  );
}

function Metric({ name, series, options, start }: { name: string; series: Series; options: ViewOptions; start: number }) {
  const curves = useMemo(() => [curveOf(name, series, options.xKind, start)], [name, series, options.xKind, start]);
  const last = series.y.findLast((value) => value !== null);
  const pointed = useSignal<number | null>(null);
  return (
    <section class="panel">
      <header>
        <h3 class="mono cut" title={name}>
          <span class="faint">{name.slice(0, name.indexOf("/") + 1)}</span>
          {name.slice(name.indexOf("/") + 1)}
        </h3>
        <span class={pointed.value === null ? "actions" : "actions pointed"}>{number(pointed.value ?? last)}</span>
      </header>
      <div class="inside tight">
        <Chart label={name} curves={curves} height={168} onRead={(value) => (pointed.value = value)} {...chartOptions(options)} />
      </div>
    </section>
  );
}
