/** One run: `#/runs/ID?tab=..&smooth=..&log=1&x=time&zoom=a..b&metric=..` */
import { useRef } from "preact/hooks";
import { mayAct } from "../../api/client";
import { useDocument } from "../../api/document";
import { type Artifact, complete, isActive, type RunDetail } from "../../api/types";
import { useKeys } from "../../keys";
import { go, href, setParams } from "../../router";
import { Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { ago, count, measured, seconds } from "../../ui/format";
import { Heading } from "../../ui/heading";
import { Icon } from "../../ui/icon";
import { Menu } from "../../ui/menu";
import { progressOf, State, stateTone, stateWord } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { downloadCsv, noteRuns, tagRuns } from "../runs/bulk";
import { tableAddress } from "../runs/left";
import { exportCheckpoint, forkRun, isResumable, removeRun, resumeRun, steer } from "./actions";
import { CheckpointsTab } from "./checkpoints";
import { ConfigTab } from "./config";
import { CurveControls, CurvesTab, Metrics, readOptions, startOf, SYSTEM } from "./curves";
import { EventsTab, isIncident, useEvents } from "./events";
import { LineageTab } from "./lineage";
import { LogTab } from "./log";
import { type Curves, useCurves } from "./series";
import "./run.css";
import "./tabs.css";

const TABS = ["", "config", "checkpoints", "events", "system", "log", "lineage"];

export default function Run({ id }: { id: string }) {
  const shown = useRef("");
  const { data: run, error, reload } = useDocument<RunDetail>(`/runs/${encodeURIComponent(id)}`, ({ topic, data }) => topic === "run" && data["id"] === shown.current);
  shown.current = run?.id ?? "";
  if (!run && error)
    return (
      <Failed error={error} retry={reload}>
        <a class="button" href={href(["runs"], { q: id })}>
          Search for {id}
        </a>
        <a class="button" href={tableAddress.value}>
          All runs
        </a>
      </Failed>
    );
  if (!run) return <Loading what="the run" />;
  return <LoadedRun key={run.id} run={complete(run)} reload={reload} />;
}

function LoadedRun({ run, reload }: { run: RunDetail; reload: () => void }) {
  const options = readOptions();
  const curves = useCurves(run.id, "", options.xKind === "steps" ? options.zoom : null);
  const { events, error } = useEvents(run.id);
  const files = useDocument<{ items: Artifact[] }>(`/runs/${run.id}/artifacts`, ({ topic, data }) => topic === "event" && (data["run"] ?? data["run_id"] ?? data["id"]) === run.id);
  const artifacts = files.data?.items ?? [];
  useKeys("Run", {
    ...Object.fromEntries(TABS.map((tab, index) => [String(index + 1), [`Open ${tab || "curves"}`, () => setParams({ tab })]])),
    u: ["Back to all runs", () => go(tableAddress.peek())],
  });
  return (
    <>
      <RunHeading run={run} reload={reload} />
      <Summary run={run} curves={curves} />
      {run.message && (
        <p class={`notice tone-${stateTone(run)}`}>
          <b>{run.reason.replaceAll("_", " ") || stateWord(run)}</b> {run.message}
        </p>
      )}
      <Tabs
        label="Parts of the run"
        tabs={[
          { name: "", title: "Curves", body: () => <Body><CurvesTab run={run} curves={curves} artifacts={artifacts} /></Body> },
          { name: "config", title: "Config", body: () => <Body><ConfigTab run={run} /></Body> },
          { name: "checkpoints", title: "Checkpoints", count: run.checkpoints.length, body: () => <Body><CheckpointsTab run={run} artifacts={artifacts} /></Body> },
          { name: "events", title: "Incidents", count: events?.filter(isIncident).length, body: () => <Body><EventsTab events={events} error={error} /></Body> },
          { name: "system", title: "System", body: () => <Body><SystemTab curves={curves} /></Body> },
          { name: "log", title: "Log", body: () => <Body fill><LogTab id={run.id} /></Body> },
          { name: "lineage", title: "Lineage", body: () => <Body><LineageTab run={run} /></Body> },
        ]}
      />
    </>
  );
}

const Body = ({ children, fill }: { children: preact.ComponentChildren; fill?: boolean }) => <div class={fill ? "body fill run-body" : "body run-body"}>{children}</div>;

function SystemTab({ curves }: { curves: Curves }) {
  const options = readOptions();
  if (!curves.series) return curves.error ? <Failed error={curves.error} /> : <Loading what="curves" />;
  return (
    <>
      <CurveControls options={options} />
      <Metrics series={curves.series} detail={curves.detail} options={options} start={startOf(curves.series)} keep={(name) => SYSTEM.test(name)} />
    </>
  );
}

function RunHeading({ run, reload }: { run: RunDetail; reload: () => void }) {
  const active = isActive(run);
  const after = (work: Promise<unknown>): void => void work.then(reload);
  return (
    <Heading
      title={run.name}
      before={
        <a class="button quiet icon" href={tableAddress.value} aria-label="All runs" title="All runs (u)">
          <Icon name="left" />
        </a>
      }
      sub={
        <>
          <span class="mono">{run.handle}</span> <State run={run} />
        </>
      }
    >
      {mayAct() && active && (
        <>
          <Button icon="pause" onClick={() => after(steer(run, "pause"))}>
            Pause
          </Button>
          <Button icon="stop" onClick={() => after(steer(run, "stop"))} disabled={run.state === "STOPPING"}>
            Stop
          </Button>
        </>
      )}
      {mayAct() && isResumable(run) && (
        <Button icon="play" onClick={() => after(resumeRun(run))}>
          Resume
        </Button>
      )}
      {mayAct() && (
        <Button icon="fork" disabled={!run.checkpoints.length} label={run.checkpoints.length ? "Fork" : "There is no checkpoint yet"} onClick={() => void forkRun(run)}>
          Fork
        </Button>
      )}
      <a class="button hide-narrow" href={href(["compare"], { runs: run.id })}>
        <Icon name="compare" /> Compare
      </a>
      <Menu label="More" icon="more">
        <a class="show-narrow" href={href(["compare"], { runs: run.id })}>
          <Icon name="compare" /> Compare
        </a>
        <button type="button" onClick={() => downloadCsv([run])}>
          <Icon name="download" /> Metrics as CSV
        </button>
        {mayAct() && (
          <>
            <button type="button" disabled={!run.checkpoints.length} onClick={() => void exportCheckpoint(run, "best")}>
              <Icon name="registry" /> Export the best checkpoint
            </button>
            <button type="button" onClick={() => after(tagRuns([run], []))}>
              <Icon name="tag" /> Tag …
            </button>
            <button type="button" onClick={() => after(noteRuns([run]))}>
              <Icon name="note" /> Note …
            </button>
            <hr />
            <button type="button" class="danger" disabled={!active} onClick={() => after(steer(run, "cancel"))}>
              <Icon name="close" /> Cancel …
            </button>
            <button type="button" class="danger" disabled={active} onClick={() => void removeRun(run)}>
              <Icon name="trash" /> Remove …
            </button>
          </>
        )}
      </Menu>
    </Heading>
  );
}

function last(curves: Curves, name: string): number | null {
  return curves.series?.[name]?.y.findLast((value) => value !== null) ?? null;
}

/** The numbers that somebody looks for first. */
function Summary({ run, curves }: { run: RunDetail; curves: Curves }) {
  const speed = last(curves, "time/steps_per_second");
  const moving = run.state === "RUNNING";
  const left = speed && run.epoch ? ((run.env_steps / run.epoch) * (run.total_epochs - run.epoch)) / speed : null;
  return (
    <div class="summary">
      <Fact title="Evaluation" value={measured(run.eval_return)} detail={run.eval_interval ? `${measured(run.eval_interval[0])} to ${measured(run.eval_interval[1])}` : "none yet"} strong />
      <Fact title="Training return" value={measured(run.train_return)} detail="last epoch" />
      <Fact title="Steps" value={count(run.env_steps)} detail={speed === null ? "" : `${count(speed)} a second`} />
      <div class="fact">
        <span class="title">Epoch</span>
        <span class="value">
          {run.epoch} <small>of {run.total_epochs}</small>
        </span>
        <span class="progress">
          <i style={{ width: `${progressOf(run) * 100}%` }} />
        </span>
        <span class="detail">{moving && left !== null ? `${seconds(left)} left` : `updated ${ago(run.updated_at)}`}</span>
      </div>
      <Fact title="Algorithm" value={run.algo} detail={`on ${run.env_id}, seed ${run.seed}`} words />
      {(run.tags.length > 0 || run.note) && (
        <div class="fact wide">
          <span class="title">{run.note ? "Note" : "Tags"}</span>
          <span>{run.note}</span>
          <span>
            {run.tags.map((tag) => (
              <a class="chip" key={tag} href={href(["runs"], { tag })} style="margin-right:4px">
                {tag}
              </a>
            ))}
          </span>
        </div>
      )}
    </div>
  );
}

function Fact({ title, value, detail, strong, words }: { title: string; value: string; detail: string; strong?: boolean; words?: boolean }) {
  return (
    <div class="fact">
      <span class="title">{title}</span>
      <span class={`value ${strong ? "strong" : ""} ${words ? "words" : ""}`}>{value}</span>
      <span class="detail">{detail}</span>
    </div>
  );
}
