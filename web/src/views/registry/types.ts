/* Documents of the registry, as `rlctl models --json` prints them. */
export type Stage = "none" | "staging" | "production" | "archived";

export interface Version {
  name: string; // MODEL:3
  model: string;
  version: number;
  digest: string;
  run_id: string;
  step: number;
  stage: Stage;
  created_at: string;
}

export interface Look {
  n: number;
  mean: number;
  lower: number;
  upper: number;
  alpha: number;
}

export interface Summary {
  mean: number;
  ci_low: number;
  ci_high: number;
  std: number;
}

/** The numbers a promotion rests on. */
export interface Verdict {
  promote: boolean;
  reason: string;
  seed: number;
  episodes: number;
  candidate: Summary;
  incumbent: Summary | null;
  looks: Look[];
  gates: Record<string, { found: number; wanted: number }>;
  settings: Record<string, number | null>;
}

export interface Decision {
  seq: number;
  model: string;
  version: number;
  stage: Stage;
  kind: string;
  actor: string;
  reason: string;
  verdict: Verdict | Record<string, never>;
  at: string;
}

export interface ModelDocument {
  name: string;
  versions: Version[];
  history: Decision[];
  /** The version that a rollback brings back. */
  before: number | null;
  etag?: string;
}

export const verdictOf = (decision: Decision | undefined): Verdict | null => (decision !== undefined && "candidate" in decision.verdict ? (decision.verdict as Verdict) : null);

/** The newest decision that was made by numbers about a version. */
export function lastVerdict(history: readonly Decision[], version: number): Verdict | null {
  const judged = history.filter((decision) => decision.version === version && verdictOf(decision) !== null);
  return verdictOf(judged.sort((one, other) => other.seq - one.seq)[0]);
}
