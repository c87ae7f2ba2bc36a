/** Documents of the HTTP API (`/api/v1`), as `rlctl ... --json` prints them. tests/web compares them with the server's OpenAPI document. */

export type RunState =
  | "QUEUED"
  | "STARTING"
  | "RUNNING"
  | "STOPPING"
  | "COMPLETED"
  | "FAILED"
  | "INTERRUPTED"
  | "CANCELLED";

export interface Run {
  id: string;
  handle: string;
  name: string;
  state: RunState;
  reason: string;
  message: string;
  algo: string;
  env_id: string;
  seed: number;
  config_hash: string;
  epoch: number;
  total_epochs: number;
  env_steps: number;
  total_steps?: number | null;
  gradient_steps: number;
  train_return: number | null;
  eval_return: number | null;
  eval_interval: [number, number] | null;
  exact: boolean;
  exact_reason: string;
  host: string;
  owner: string;
  attempt: number;
  priority: number;
  paused: boolean;
  recorded: boolean;
  parent_id: string | null;
  parent_step: number | null;
  sweep: string;
  trial: number | null;
  tags: string[];
  note: string;
  created_at: string;
  updated_at: string;
  etag?: string;
  spark?: (number | null)[];
}

const UNRECORDED = { owner: "", priority: 0, attempt: 1, parent_id: null, parent_step: null, sweep: "", trial: null, tags: [], note: "" };

/** A run that only its folder knows lacks what the store keeps. */
export const complete = <R extends Run>(run: R): R => ({ ...UNRECORDED, ...run });

export interface Checkpoint {
  step: number;
  epoch: number;
  state_hash: string;
  exact: boolean;
  size: number;
  tags: string[];
}

export interface Relative {
  id: string;
  handle?: string;
  name?: string;
  state?: RunState;
  parent_id?: string | null;
  parent_step?: number | null;
  depth?: number;
  env_steps?: number;
}

/** One run in full. */
export interface RunDetail extends Run {
  topology: Record<string, string | number | boolean | null>;
  seeds: Record<string, string | number | boolean | null>;
  checkpoints: Checkpoint[];
  lineage?: Record<string, unknown> | null;
  relatives?: Relative[];
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
  total: number;
}

export interface MetricName {
  name: string;
  kind: string;
  last: number | null;
  count: number;
}

export interface MetricNames {
  names: MetricName[];
  steps: number;
}

export interface Series {
  x: number[];
  y: (number | null)[];
  /** Epoch seconds of each point. */
  clock?: number[];
}

export interface SeriesAnswer {
  series: Record<string, Series>;
  /** These are the whole curves, in the place of what was there; otherwise only what is new. */
  complete: boolean;
  next: string | null;
}

export interface ConfigChange {
  field: string;
  before: unknown;
  after: unknown;
}

export interface ConfigAnswer {
  yaml: string;
  config: Record<string, unknown>;
  changes?: ConfigChange[] | null;
}

export interface RunEvent {
  seq: number;
  time: number | string;
  kind: string;
  [field: string]: unknown;
}

export interface LogPart {
  text: string;
  offset: number;
  end: number;
}

export interface Artifact {
  name: string;
  size: number;
  type: string;
}

export interface FieldProblem {
  field: string;
  message: string;
  line?: number | null;
  column?: number | null;
}

/** `application/problem+json` */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  problems?: FieldProblem[];
}

export interface Operation<T = Record<string, unknown>> {
  id: string;
  kind: string;
  state: "running" | "done" | "failed";
  result?: T | null;
  /** Where its file lies, below the API. */
  download?: string | null;
  error?: Problem | null;
}

export interface Me {
  name: string;
  role: "read" | "act";
}

export const ENDED: readonly RunState[] = ["COMPLETED", "FAILED", "INTERRUPTED", "CANCELLED"];

export const isActive = (run: Pick<Run, "state">): boolean => !ENDED.includes(run.state);
