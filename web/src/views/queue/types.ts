/* The document of the queue. */
import type { Run } from "../../api/types";

export interface Resources {
  cpus: number;
  gpus: number;
  memory_mb: number;
}

export interface Worker extends Resources {
  id: string;
  host: string;
  steps_per_second: number;
}

export interface QueueDocument {
  running: Run[];
  queued: Run[];
  paused: Run[];
  not_recorded: Run[];
  workers: Worker[];
  slots: Resources;
  in_use: Resources;
}
