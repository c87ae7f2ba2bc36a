import { isUndecided } from "../api/sweeps";
import type { Run, RunState } from "../api/types";

export type Tone = "good" | "bad" | "warn" | "live" | "idle";

export const STATE_TONES: Record<RunState, Tone> = {
  QUEUED: "idle",
  STARTING: "live",
  RUNNING: "live",
  STOPPING: "warn",
  COMPLETED: "good",
  FAILED: "bad",
  INTERRUPTED: "warn",
  CANCELLED: "idle",
};

const MOVING: readonly RunState[] = ["STARTING", "RUNNING", "STOPPING"];
const HOLLOW: readonly RunState[] = ["QUEUED", "CANCELLED"];

type Stated = Pick<Run, "state" | "reason" | "message" | "paused" | "sweep" | "trial">;

/** A run of a sweep that has come to a rung: it waits there until its trial goes on or is pruned. */
const isAtRung = (run: Stated): boolean => run.state === "INTERRUPTED" && run.reason === "paused" && !run.paused && Boolean(run.sweep);

/** What the state of a run is called, in the table, in its filter and in the address. */
export function stateWord(run: Stated): string {
  if (isAtRung(run)) return isUndecided(run.sweep, run.trial) ? "waiting" : "pruned";
  return run.state === "INTERRUPTED" && run.paused ? "paused" : run.state.toLowerCase();
}

export const stateTone = (run: Stated): Tone => (isAtRung(run) ? "idle" : STATE_TONES[run.state]);

/** The share of a run that is done. One that has reached its goal early is done. */
export const progressOf = (run: Pick<Run, "state" | "epoch" | "total_epochs">): number => (run.state === "COMPLETED" ? 1 : Math.min(1, run.epoch / (run.total_epochs || 1)));

/** The state of a run with its reason as a tooltip; shape and word say it too, not only the colour. */
export function State({ run }: { run: Stated }) {
  const word = stateWord(run);
  const atRung = word === "waiting" ? `until sweep ${run.sweep} decides whether it goes on` : `by sweep ${run.sweep}`;
  const why = isAtRung(run) ? atRung : [run.reason.replaceAll("_", " "), run.message].filter(Boolean).join(": ");
  const hollow = HOLLOW.includes(run.state) || isAtRung(run);
  return (
    <span class={`state tone-${stateTone(run)} ${MOVING.includes(run.state) ? "moving" : ""} ${hollow ? "hollow" : ""}`} title={why || undefined}>
      {word}
    </span>
  );
}
