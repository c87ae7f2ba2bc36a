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

/** The words of the address that choose these groups, in this order: as they stand there, or ids of runs where one name
    stands for several groups because its runs differ in their settings. */
export function refsOfAll(groups: readonly GroupResult[], refs: readonly string[]): string[] {
  const chosenBy = (group: GroupResult): string[] => {
    const own = refs.filter((ref) => ref === group.name || group.runs.some((run) => run.id === ref || run.id.endsWith(ref)));
    return own.length > 0 ? own : group.runs.map((run) => run.id);
  };
  return [...new Set(groups.flatMap(chosenBy))];
}

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
  /** What is drawn: the training return where there are too few evaluations for a curve, as a note then says. */
  metric: string;
  groups: GroupCurve[];
  notes: string[];
}
