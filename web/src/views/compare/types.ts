/* Documents of comparisons, as `rlctl compare --json` prints them, and the curves beside them. */
import type { RunState } from "../../api/types";

export interface Estimate {
  value: number | null;
  low: number | null;
  high: number | null;
}

export interface GroupResult {
  name: string;
  n: number;
  envs: string[];
  algos: string[];
  iqm: Estimate | null;
  mean: Estimate | null;
  /** How probably a run of this group ends above one of the first group. */
  improvement: Estimate | null;
  runs: { id: string; seed: number; state: RunState; step: number; value: number }[];
}

/** The words of the address that chose this group: its name, or ids of its runs. */
export const refsOf = (group: GroupResult, refs: readonly string[]): string[] =>
  refs.filter((ref) => ref === group.name || group.runs.some((run) => run.id === ref || run.id.endsWith(ref)));

export interface Comparison {
  metric: string;
  direction: "maximize" | "minimize";
  groups: GroupResult[];
  notes: string[];
}

export interface GroupCurve {
  name: string;
  n: number;
  x: number[];
  iqm: (number | null)[];
  low: (number | null)[] | null;
  high: (number | null)[] | null;
  runs: { id: string; seed: number; x: number[]; y: (number | null)[] }[];
}

export interface Curves {
  metric: string;
  groups: GroupCurve[];
}
