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

/** The state of a run with its reason as a tooltip; shape and word say it too, not only the colour. */
export function State({ run }: { run: Pick<Run, "state" | "reason" | "message" | "paused"> }) {
  const word = run.state === "INTERRUPTED" && run.paused ? "paused" : run.state.toLowerCase();
  const why = [run.reason.replaceAll("_", " "), run.message].filter(Boolean).join(": ");
  return (
    <span class={`state tone-${STATE_TONES[run.state]} ${MOVING.includes(run.state) ? "moving" : ""} ${HOLLOW.includes(run.state) ? "hollow" : ""}`} title={why || undefined}>
      {word}
    </span>
  );
}
