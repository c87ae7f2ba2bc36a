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

type Stated = Pick<Run, "state" | "reason" | "message" | "paused" | "sweep">;

/** A trial that its sweep gave up early; the sweep may still let it go on. */
const isPruned = (run: Stated): boolean => run.state === "INTERRUPTED" && run.reason === "paused" && !run.paused && Boolean(run.sweep);

/** What the state of a run is called, in the table, in its filter and in the address. */
export function stateWord(run: Stated): string {
  if (isPruned(run)) return "pruned";
  return run.state === "INTERRUPTED" && run.paused ? "paused" : run.state.toLowerCase();
}

export const stateTone = (run: Stated): Tone => (isPruned(run) ? "idle" : STATE_TONES[run.state]);

/** The state of a run with its reason as a tooltip; shape and word say it too, not only the colour. */
export function State({ run }: { run: Stated }) {
  const why = isPruned(run) ? `given up early by sweep ${run.sweep}` : [run.reason.replaceAll("_", " "), run.message].filter(Boolean).join(": ");
  const hollow = HOLLOW.includes(run.state) || isPruned(run);
  return (
    <span class={`state tone-${stateTone(run)} ${MOVING.includes(run.state) ? "moving" : ""} ${hollow ? "hollow" : ""}`} title={why || undefined}>
      {stateWord(run)}
    </span>
  );
}
