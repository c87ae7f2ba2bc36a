/** Which trials of each sweep are not decided yet: a run that stands still at a rung is pruned only once its trial is. */
import { signal } from "@preact/signals";
import { get } from "./client";
import { listen } from "./stream";

export interface Listed {
  name: string;
  live_trials: number[];
}

export const undecided = signal<ReadonlyMap<string, ReadonlySet<number>>>(new Map());

export const isUndecided = (sweep: string, trial: number | null): boolean => trial !== null && undecided.value.get(sweep)?.has(trial) === true;

const put = (sweeps: readonly Listed[]): void => void (undecided.value = new Map([...undecided.peek(), ...sweeps.map((one) => [one.name, new Set(one.live_trials)] as const)]));

/** Once, and after a lost connection; in between the stream says it. */
export async function loadSweeps(): Promise<void> {
  const page = await get<{ items: Listed[] }>("/sweeps").catch(() => null);
  if (page) put(page.items);
}

listen(({ topic, data }) => {
  if (topic === "sweep" && typeof data["name"] === "string" && Array.isArray(data["live_trials"])) put([data as unknown as Listed]);
});
