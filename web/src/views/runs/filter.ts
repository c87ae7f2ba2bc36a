/** Which runs the table shows, in which order and groups: all of it comes from the address. */
import type { Run } from "../../api/types";
import { stateWord } from "../../ui/state";
import type { Sort } from "../../ui/table";

export interface Filter {
  text: string;
  states: readonly string[];
  envs: readonly string[];
  algos: readonly string[];
  tags: readonly string[];
}

export const list = (text: string): string[] => text.split(",").filter(Boolean);

export function matches(run: Run, filter: Filter, words: readonly string[]): boolean {
  if (filter.states.length && !filter.states.includes(stateWord(run))) return false;
  if (filter.envs.length && !filter.envs.includes(run.env_id)) return false;
  if (filter.algos.length && !filter.algos.includes(run.algo)) return false;
  if (filter.tags.length && !filter.tags.every((tag) => run.tags.includes(tag))) return false;
  if (!words.length) return true;
  const text = `${run.name} ${run.handle} ${run.id} ${run.algo} ${run.env_id} ${run.tags.join(" ")} ${run.note} ${run.sweep}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

export function filtered(runs: readonly Run[], filter: Filter): Run[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter((run) => matches(run, filter, words));
}

type Sortable = string | number | null;

const VALUES: Record<string, (run: Run) => Sortable> = {
  state: stateWord,
  name: (run) => run.name.toLowerCase(),
  algo: (run) => run.algo,
  env: (run) => run.env_id,
  seed: (run) => run.seed,
  progress: (run) => run.epoch / (run.total_epochs || 1),
  steps: (run) => run.env_steps,
  train: (run) => run.train_return,
  eval: (run) => run.eval_return,
  updated: (run) => run.updated_at,
  created: (run) => run.created_at,
  priority: (run) => run.priority,
};

/** Missing values come last in both directions. */
export function sorted(runs: Run[], sort: Sort): Run[] {
  const value = VALUES[sort.name];
  if (!value) return runs;
  const direction = sort.descending ? -1 : 1;
  return [...runs].sort((a, b) => {
    const [left, right] = [value(a), value(b)];
    if (left === right) return a.id < b.id ? 1 : -1;
    if (left === null) return 1;
    if (right === null) return -1;
    return left < right ? -direction : direction;
  });
}

export interface Group {
  key: string;
  runs: Run[];
}

const CURVES_OF_A_GROUP = 8;

/** The runs of a group whose small curves lie over each other. */
export const drawnOf = (group: Group): Run[] => group.runs.slice(0, CURVES_OF_A_GROUP);

/** `below`: the group that the run stands in; "" for none. */
export type Row = { kind: "run"; run: Run; below: string } | { kind: "group"; group: Group; open: boolean };

/** What the runs of a group share; a run of no sweep stands with those of its name. */
const KEYS: Record<string, (run: Run) => string> = {
  name: (run) => run.name,
  config: (run) => run.config_hash.slice(0, 12),
  sweep: (run) => run.sweep || run.name,
};

/** Groups in the order of their first run; a group of one stays a row. */
export function grouped(runs: readonly Run[], by: string, open: ReadonlySet<string>): Row[] {
  const keyOf = KEYS[by];
  if (!keyOf) return runs.map((run) => ({ kind: "run", run, below: "" }));
  const groups = new Map<string, Group>();
  for (const run of runs) {
    const key = keyOf(run);
    const group = groups.get(key);
    if (group) group.runs.push(run);
    else groups.set(key, { key, runs: [run] });
  }
  return [...groups.values()].flatMap((group): Row[] => {
    if (group.runs.length === 1) return [{ kind: "run", run: group.runs[0] as Run, below: "" }];
    const isOpen = open.has(group.key);
    const heading: Row = { kind: "group", group, open: isOpen };
    return isOpen ? [heading, ...group.runs.map((run): Row => ({ kind: "run", run, below: group.key }))] : [heading];
  });
}

export function mean(values: readonly (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** Values of a field with how many runs have them, most frequent first. */
export function tally(runs: readonly Run[], of: (run: Run) => readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const run of runs) for (const value of of(run)) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}
