/* One sweep while it runs and afterwards: how far it is, what it found, which settings mattered, every trial. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";

import { act, get, mayAct } from "../../api/client";
import { useDocument } from "../../api/document";
import type { Run } from "../../api/types";
import { useKeys } from "../../keys";
import { go, href, param, setParams } from "../../router";
import { Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { confirm } from "../../ui/dialog";
import { measured, short } from "../../ui/format";
import { Heading } from "../../ui/heading";
import { Icon } from "../../ui/icon";
import { Menu } from "../../ui/menu";
import { attempt, toast } from "../../ui/toast";
import { Contour } from "./contour";
import { TrialCurves } from "./curves";
import { History, Importance } from "./history";
import { Parallel } from "./parallel";
import type { Pointed } from "./plot";
import { Slices } from "./slice";
import { SweepState } from "./state";
import { ChosenTrial, Trials } from "./trials";
import { isWaiting, type SweepDocument } from "./types";

const BEST_SEEDS = 5;
const Back = (): JSX.Element => (
  <a href={href(["sweeps"])} class="button quiet icon" aria-label="All sweeps" title="All sweeps">
    <Icon name="left" />
  </a>
);

export function One({ name }: { name: string }): JSX.Element {
  const path = `/sweeps/${encodeURIComponent(name)}`;
  const sweep = useDocument<SweepDocument>(path, ({ topic, data }) => (topic === "sweep" && data["name"] === name) || (topic === "run" && data["sweep"] === name));
  if (sweep.error && sweep.data === null) {
    return (
      <>
        <Heading title={name} before={<Back />} />
        <Failed error={sweep.error} retry={sweep.reload}>
          <a class="button" href={href(["sweeps"])}>
            All sweeps
          </a>
        </Failed>
      </>
    );
  }
  if (sweep.data === null) return <Loading what={`sweep ${name}`} />;
  return <Shown sweep={sweep.data} path={path} reload={sweep.reload} />;
}

function Shown({ sweep, path, reload }: { sweep: SweepDocument; path: string; reload: () => void }): JSX.Element {
  const trial = useSignal<number | null>(null);
  const chosen = param("trial") === "" ? null : Number(param("trial"));
  const at: Pointed = { trial, choose: (number) => setParams({ trial: number === chosen ? "" : number }) };
  const pruned = param("pruned") !== "0";
  const move = (step: number): void => {
    const last = sweep.trials.length - 1;
    setParams({ trial: chosen === null ? (step > 0 ? 0 : last) : Math.max(0, Math.min(last, chosen + step)) });
  };
  useKeys("Sweep", {
    j: ["Next trial", () => move(1)],
    k: ["Previous trial", () => move(-1)],
    b: ["The best trial", () => sweep.best !== null && setParams({ trial: sweep.best })],
    p: ["Show or hide pruned trials", () => setParams({ pruned: pruned ? "0" : "" })],
    Escape: ["Close the trial", () => setParams({ trial: "" })],
  });
  const settings = Object.keys(sweep.space);
  const ranked = Object.keys(sweep.importance).filter((setting) => settings.includes(setting));
  const order = [...ranked, ...settings.filter((setting) => !ranked.includes(setting))];
  const across = settings.includes(param("x")) ? param("x") : (order[0] ?? "");
  const up = settings.includes(param("y")) && param("y") !== across ? param("y") : (order.find((setting) => setting !== across) ?? "");
  const selected = sweep.trials.find((candidate) => candidate.number === chosen);
  return (
    <>
      <Heading title={sweep.name} before={<Back />} sub={<SweepState state={sweep.state} />}>
        <Actions sweep={sweep} path={path} reload={reload} />
      </Heading>
      <div class="body sweep">
        <Facts sweep={sweep} />
        <section class="panel wide">
          <header>
            <h2>All trials</h2>
            <span class="faint">{sweep.metric} over environment steps</span>
            <div class="actions">
              <Button kind="quiet" pressed={pruned} label="Show or hide pruned trials (p)" onClick={() => setParams({ pruned: pruned ? "0" : "" })}>
                Pruned
              </Button>
            </div>
          </header>
          <div class="inside">
            <TrialCurves sweep={sweep} at={at} chosen={chosen} pruned={pruned} />
          </div>
        </section>
        <section class="panel">
          <header>
            <h2>Best so far</h2>
            <span class="faint">by the bound of the mean over seeds; × pruned</span>
          </header>
          <div class="inside">
            <History sweep={sweep} at={at} />
          </div>
        </section>
        <section class="panel">
          <header>
            <h2>Which settings matter</h2>
            <span class="faint">rank correlation at the first rung</span>
          </header>
          <div class="inside">
            <Importance sweep={sweep} />
          </div>
        </section>
        {selected && <ChosenTrial sweep={sweep} trial={selected} />}
        <section class="panel wide">
          <header>
            <h2>Settings and result</h2>
            <Scale />
          </header>
          <div class="inside">
            <Parallel sweep={sweep} at={at} pruned={pruned} />
          </div>
        </section>
        <section class="panel wide">
          <header>
            <h2>Each setting</h2>
          </header>
          <div class="inside">
            <Slices sweep={sweep} at={at} pruned={pruned} />
          </div>
        </section>
        {across && up && (
          <section class="panel wide">
            <header>
              <h2>Two settings</h2>
              <Scale />
              <span class="faint hide-narrow">each trial by its last result</span>
              <div class="actions">
                <Setting label="Across" value={across} settings={settings} onChange={(x) => setParams({ x })} />
                <Setting label="Up" value={up} settings={settings.filter((setting) => setting !== across)} onChange={(y) => setParams({ y })} />
              </div>
            </header>
            <div class="inside">
              <Contour sweep={sweep} at={at} x={across} y={up} />
            </div>
          </section>
        )}
        <section class="panel wide">
          <header>
            <h2>Trials</h2>
          </header>
          <Trials sweep={sweep} at={at} chosen={chosen} pruned={pruned} />
        </section>
      </div>
    </>
  );
}

function Scale(): JSX.Element {
  return (
    <span class="merit-scale faint" aria-hidden="true">
      worst <i /> best
    </span>
  );
}

function Setting(props: { label: string; value: string; settings: readonly string[]; onChange: (setting: string) => void }): JSX.Element {
  return (
    <label class="small-field">
      <span>{props.label}</span>
      <select class="field" value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.settings.map((setting) => (
          <option key={setting} value={setting}>
            {setting}
          </option>
        ))}
      </select>
    </label>
  );
}

function Facts({ sweep }: { sweep: SweepDocument }): JSX.Element {
  const count = (state: string): number => sweep.trials.filter((trial) => trial.state === state).length;
  const best = sweep.trials.find((trial) => trial.number === sweep.best);
  const ended = sweep.trials.length - count("RUNNING");
  const waiting = sweep.trials.filter(isWaiting).length;
  const facts: [string, string, string][] = [
    ["Best", best ? measured(best.value) : "none yet", best ? `trial ${best.number}, over ${sweep.seeds.length} ${sweep.seeds.length === 1 ? "seed" : "seeds"}` : `${sweep.metric}, ${sweep.direction}`],
    ["Trials ended", `${ended} of ${Math.max(sweep.planned, sweep.trials.length)}`, `${count("RUNNING") - waiting} running${waiting > 0 ? `, ${waiting} waiting at a rung` : ""}${sweep.paused > 0 ? `; ${sweep.paused} ${sweep.paused === 1 ? "run is" : "runs are"} paused by hand` : ""}`],
    ["Pruned", String(count("PRUNED")), `${sweep.pruner}${sweep.rungs.length > 0 ? ` at epoch ${sweep.rungs.join(", ")}` : ""} of ${sweep.epochs}`],
    ["Steps", short(sweep.env_steps), `${sweep.sampler} sampler`],
  ];
  return (
    <div class="sweep-facts wide">
      <dl>
        {facts.map(([name, value, about]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
            <dd class="faint">{about}</dd>
          </div>
        ))}
      </dl>
      <div class="progress" role="progressbar" aria-label="Trials ended" aria-valuenow={ended} aria-valuemin={0} aria-valuemax={Math.max(1, sweep.planned)}>
        <i style={{ width: `${(100 * ended) / Math.max(1, sweep.planned, sweep.trials.length)}%` }} />
      </div>
    </div>
  );
}

function Actions({ sweep, path, reload }: { sweep: SweepDocument; path: string; reload: () => void }): JSX.Element | null {
  const busy = useSignal(false);
  if (!mayAct()) return null;
  const doing = async (work: () => Promise<unknown>, done: string): Promise<boolean> => {
    busy.value = true;
    const worked = await attempt(work, done);
    busy.value = false;
    reload();
    return worked;
  };
  const runBest = async (): Promise<void> => {
    await attempt(async () => {
      const { yaml } = await get<{ yaml: string }>(`${path}/best`);
      const { runs, run } = await act<{ runs: Run[]; run: Run }>("POST", "/experiments", { yaml, seeds: BEST_SEEDS });
      toast(`${runs.length} runs of ${run.name} are in the queue.`, "good", { action: { label: "Show them", run: () => go(href(["runs"], { q: run.name })) } });
    });
  };
  const remove = async (): Promise<void> => {
    const runs = sweep.trials.reduce((sum, trial) => sum + trial.runs.length, 0);
    const yes = await confirm({ title: `Delete sweep ${sweep.name}?`, detail: `Its ${runs} runs go with it, for good. Versions in the registry stay.`, confirm: "Delete", danger: true });
    if (yes && (await doing(() => act("DELETE", path), `Sweep ${sweep.name} is deleted.`))) go(href(["sweeps"]));
  };
  const isRunning = sweep.state === "RUNNING";
  return (
    <>
      {isRunning ? (
        <Button icon="stop" disabled={busy.value} onClick={() => void doing(() => act("POST", `${path}/stop`), "The sweep stops at the next safe point of its runs.")}>
          Stop
        </Button>
      ) : (
        sweep.state !== "COMPLETED" && (
          <Button icon="play" disabled={busy.value} onClick={() => void doing(() => act("POST", `${path}/resume`), "The sweep goes on.")}>
            Resume
          </Button>
        )
      )}
      <Button kind="primary" icon="runs" disabled={sweep.best === null} label={sweep.best === null ? "No trial has completed yet" : undefined} onClick={() => void runBest()}>
        Run the best with {BEST_SEEDS} seeds
      </Button>
      <Menu label="More" icon="more">
        <button type="button" disabled={isRunning} title={isRunning ? "Stop the sweep first" : undefined} onClick={() => void remove()}>
          Delete …
        </button>
      </Menu>
    </>
  );
}
