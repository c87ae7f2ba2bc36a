/**
 * All runs of the server, in memory: 10,000 of them filter and sort here in milliseconds. The first page is there at once,
 * the others follow in the background; the stream replaces single runs by their id.
 */
import { computed, signal } from "@preact/signals";
import { ApiError, explain, get, query } from "../../api/client";
import { listen, resyncs } from "../../api/stream";
import { complete, type Page, type Run } from "../../api/types";

const FIRST = 100;
const PAGE = 500;
const SPARK_POINTS = 32;
const SPARKS_AT_ONCE = 60;
const CHANGE_MS = 250;
const SPARK_MS = 1_000;

const runs = new Map<string, Run>();
const version = signal(0);
const onServer = signal<number | null>(null);
const isLoaded = signal(false);
export const failure = signal<ApiError | null>(null);
/** Newest first. A new array whenever anything changed. */
export const allRuns = computed(() => {
  void version.value;
  return [...runs.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
});

const sparks = new Map<string, { of: string; values: (number | null)[] }>();
/** How many runs there are: as the server says, until all of them are here; null before it has said so. */
export const total = computed(() => (isLoaded.value ? allRuns.value.length : onServer.value));
export const sparkVersion = signal(0);
export const sparkOf = (run: Run): (number | null)[] | undefined => sparks.get(run.id)?.values;

let loading = 0;
let started = false;

/** Loads and keeps loading; a second call does nothing. */
export function keepRuns(): void {
  if (started) return;
  started = true;
  void loadAll();
  let before = resyncs.peek();
  resyncs.subscribe((now) => {
    if (now !== before) void loadAll();
    before = now;
  });
  listen(({ topic, data }) => {
    if (topic !== "run" || typeof data["id"] !== "string") return;
    if (data["deleted"] === true || data["removed"] === true) remove([data["id"]]);
    else if (typeof data["state"] === "string" && typeof data["handle"] === "string") put([data as unknown as Run]);
    else changed.add(data["id"]);
    scheduleChanged();
  });
}

async function loadAll(): Promise<void> {
  const attempt = ++loading;
  const present = new Set<string>();
  let cursor: string | null = null;
  try {
    do {
      const first: boolean = cursor === null;
      const since = ++turn;
      const page: Page<Run> = await get(`/runs${query({ limit: first ? FIRST : PAGE, cursor, spark: first ? SPARK_POINTS : null })}`);
      if (attempt !== loading) return;
      onServer.value = page.total;
      put(page.items, since);
      for (const run of page.items) present.add(run.id);
      cursor = page.next_cursor;
    } while (cursor !== null);
    failure.value = null;
    isLoaded.value = true;
    remove([...runs.keys()].filter((id) => !present.has(id)));
  } catch (error) {
    failure.value = error instanceof ApiError ? error : new ApiError(explain(error), 0);
  }
}

export const reload = (): void => void loadAll();

/** When a run was last replaced, counted in replacements and requests. */
const replaced = new Map<string, number>();
let turn = 0;

/** `since`: the turn in which these documents were asked for; what was replaced after that is newer than they are. */
export function put(items: readonly Run[], since = ++turn): void {
  for (const run of items) {
    if ((replaced.get(run.id) ?? 0) > since) continue;
    replaced.set(run.id, since);
    if (run.spark) sparks.set(run.id, { of: run.updated_at, values: run.spark });
    runs.set(run.id, complete(run));
  }
  announce();
}

/** The run that an action answers with, unless an event has brought a newer one meanwhile. */
export async function putAnswer(request: Promise<Run>): Promise<Run> {
  const since = ++turn;
  const run = await request;
  put([run], since);
  return run;
}

export function remove(ids: readonly string[]): void {
  for (const id of ids) runs.delete(id);
  if (ids.length) announce();
}

let announced = false;

/** Many events in one moment are one new table. */
function announce(): void {
  if (announced) return;
  announced = true;
  queueMicrotask(() => {
    announced = false;
    version.value++;
    if (inSight.length) fetchSparksSoon();
  });
}

const changed = new Set<string>();
let timer: ReturnType<typeof setTimeout> | undefined;

function scheduleChanged(): void {
  if (!changed.size) return;
  timer ??= setTimeout(() => {
    timer = undefined;
    const ids = [...changed].slice(0, SPARKS_AT_ONCE);
    for (const id of ids) changed.delete(id);
    void fetchRuns(ids);
    scheduleChanged();
  }, CHANGE_MS);
}

/** Single runs with their small curves. */
async function fetchRuns(ids: readonly string[]): Promise<void> {
  const search = new URLSearchParams([...ids.map((id) => ["id", id]), ["spark", String(SPARK_POINTS)], ["limit", String(ids.length)]]);
  const since = ++turn;
  const page = await get<Page<Run>>(`/runs?${search}`).catch(() => null);
  if (!page) return;
  put(page.items, since);
  sparkVersion.value++;
}

let inSight: readonly string[] = [];
let asking = false;
let sparkTimer: ReturnType<typeof setTimeout> | undefined;

/** Small curves of the rows in sight, now and whenever their runs have learned more. */
export function wantSparks(visible: readonly Run[]): void {
  inSight = visible.map((run) => run.id);
  void fetchSparks();
}

function fetchSparksSoon(): void {
  sparkTimer ??= setTimeout(() => {
    sparkTimer = undefined;
    void fetchSparks();
  }, SPARK_MS);
}

async function fetchSparks(): Promise<void> {
  if (asking) return;
  asking = true;
  const done = new Set<string>();
  for (;;) {
    const visible = inSight.flatMap((id) => runs.get(id) ?? []);
    const missing = visible.filter((run) => run.env_steps > 0 && !done.has(run.id) && sparks.get(run.id)?.of !== run.updated_at).slice(0, SPARKS_AT_ONCE);
    if (!missing.length) break;
    for (const run of missing) done.add(run.id);
    await fetchRuns(missing.map((run) => run.id));
  }
  asking = false;
}
