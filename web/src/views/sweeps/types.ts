/* Documents of sweeps, as `rlctl sweep show --json` prints them. */
import type { Json } from "../../experiment/fields";

export type TrialState = "RUNNING" | "COMPLETED" | "PRUNED" | "FAILED";

export interface Trial {
  number: number;
  name: string;
  state: TrialState;
  params: Record<string, Json>;
  value: number | null;
  bound: number | null;
  epoch: number;
  target: number;
  parent: number | null;
  message: string;
  results: Record<string, Record<string, number>>;
  env_steps: number;
  runs: string[];
}

/** Its runs have come to a rung, where they stand until more trials have come as far. */
export const isWaiting = (trial: Trial): boolean => trial.state === "RUNNING" && trial.epoch > 0 && trial.epoch >= trial.target;

/** As the page calls the state of a trial. */
export const trialState = (trial: Trial): string => (isWaiting(trial) ? "WAITING" : trial.state);

export interface Dimension {
  low?: number;
  high?: number;
  log?: boolean;
  choices?: Json[];
}

export interface SweepDocument {
  name: string;
  state: string;
  driver: { host: string; pid: number } | null;
  metric: string;
  direction: "maximize" | "minimize";
  seeds: number[];
  sampler: string;
  pruner: string;
  planned: number;
  epochs: number;
  rungs: number[];
  space: Record<string, Dimension>;
  env_steps: number;
  /** Runs that somebody paused; those that wait at a rung are not among them. */
  paused: number;
  best: number | null;
  importance: Record<string, number>;
  trials: Trial[];
  etag?: string;
}

export interface SweepRow {
  name: string;
  state: string;
  trials: number;
  live_trials: number[];
  planned?: number | null;
  metric?: string;
  direction?: "maximize" | "minimize";
  best?: number | null;
  best_value?: number | null;
  created_at?: string;
}
