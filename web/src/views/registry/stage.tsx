/* A stage as a chip. */
import type { JSX } from "preact";

import type { Stage } from "./types";

const TONES: Record<Stage, string> = { production: "good", staging: "live", archived: "idle", none: "idle" };

export function StageChip({ stage }: { stage: Stage }): JSX.Element {
  return <span class={`chip tone-${TONES[stage]}`}>{stage === "none" ? "no stage" : stage}</span>;
}
