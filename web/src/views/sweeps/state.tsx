/* States of sweeps and trials as words with a colour, as runs have them. */
import type { JSX } from "preact";

import type { Tone } from "../../ui/state";

const TONES: Record<string, Tone> = { RUNNING: "live", COMPLETED: "good", PRUNED: "idle", FAILED: "bad", STOPPED: "warn", INTERRUPTED: "warn" };

export function SweepState({ state, why }: { state: string; why?: string | undefined }): JSX.Element {
  const shape = state === "RUNNING" ? "moving" : state === "PRUNED" || state === "WAITING" ? "hollow" : "";
  return (
    <span class={`state tone-${TONES[state] ?? "idle"} ${shape}`} title={why || undefined}>
      {state.toLowerCase()}
    </span>
  );
}
