/**
 * What happens on the server, as it happens: one stream about the store (runs, queue, sweeps, models) and, while a view
 * follows runs, one about these. They are read with `fetch`, because EventSource neither takes a Last-Event-ID of its own
 * nor tells a refused login from a lost network.
 *
 * Events only say what changed; views fetch from their own cursor or replace a document by its id. So an event that
 * comes twice shows nothing twice, and after a gap one `resync` brings everything that was missed.
 */
import { signal } from "@preact/signals";
import { query, signedOut } from "./client";
import { readEvents } from "./sse";

export interface StreamEvent {
  /** run, queue, sweep, model; metrics, event, log, each with `run`. */
  topic: string;
  data: Record<string, unknown>;
}

type Listener = (event: StreamEvent) => void;

export type Connection = "connecting" | "live" | "lost";
export const connection = signal<Connection>("connecting");
/** Seconds until the next try while the connection is lost. */
export const retryIn = signal(0);
/** Counts how often a lost connection came back: what shows documents loads them again when it changes. */
export const resyncs = signal(0);

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;
const HIDDEN_MS = 5_000;
/** A stream that is over sooner was not meant to end. */
const SHORTEST_MS = 1_000;
const OF_RUNS = ["metrics", "event", "log"] as const;
/** Lists come whole; views hear of each of their members. */
const MEMBERS: Record<string, string> = { sweeps: "sweep", models: "model" };

const listeners = new Set<Listener>();
const followed = new Map<string, number>();

/** Calls `listener` for each event; returns what ends it. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function tell(topic: string, data: Record<string, unknown>): void {
  for (const listener of [...listeners]) listener({ topic, data });
}

function deliver(topic: string, data: Record<string, unknown>): void {
  const member = MEMBERS[topic];
  if (member === undefined) return tell(topic, data);
  const items = Array.isArray(data["items"]) ? (data["items"] as Record<string, unknown>[]) : [data];
  for (const item of items) tell(member, item);
}

/** One stream that is kept open; it goes on from the last id it heard. */
class Kept {
  private lastId = "";
  private abort: AbortController | null = null;
  private wake: (() => void) | null = null;

  constructor(
    private readonly path: () => string | null,
    private readonly opened: (again: boolean) => void,
    private readonly lost: () => void,
    private readonly waiting: (seconds: number) => void,
  ) {
    void this.keep();
  }

  /** Ends the stream; it begins anew, from the beginning where it is about something else now. */
  restart(forget: boolean): void {
    if (forget) this.lastId = "";
    this.abort?.abort();
    this.retryNow();
  }

  retryNow(): void {
    this.wake?.();
  }

  private async keep(): Promise<never> {
    let retry = FIRST_RETRY_MS;
    let failed = false;
    for (;;) {
      const path = this.path();
      if (path === null || document.hidden || signedOut.value) {
        await this.pause(60_000, false);
        continue;
      }
      this.abort = new AbortController();
      const began = Date.now();
      const end = await readEvents(path, this.lastId, this.abort, {
        opened: () => {
          retry = FIRST_RETRY_MS;
          this.opened(failed);
          failed = false;
        },
        event: deliver,
        id: (id) => (this.lastId = id),
      });
      if (end === "refused") signedOut.value = true;
      // The server ends every stream after a while; it is lost only if the next one cannot be opened.
      if (end === "asked" || (end === "over" && Date.now() - began > SHORTEST_MS)) continue;
      failed = true;
      this.lost();
      await this.pause(retry, true);
      retry = Math.min(retry * 2, LONGEST_RETRY_MS);
    }
  }

  private pause(ms: number, counted: boolean): Promise<void> {
    return new Promise((resolve) => {
      const until = Date.now() + ms;
      const left = (): number => Math.max(0, Math.ceil((until - Date.now()) / 1000));
      const done = (): void => {
        clearInterval(tick);
        this.wake = null;
        resolve();
      };
      const tick = setInterval(() => {
        if (counted) this.waiting(left());
        if (Date.now() >= until) done();
      }, 250);
      this.wake = done;
      if (counted) this.waiting(left());
    });
  }
}

let store: Kept | null = null;
let runs: Kept | null = null;

/** Asks for metrics, events and log of these runs. */
export function follow(ids: readonly string[]): () => void {
  for (const id of ids) followed.set(id, (followed.get(id) ?? 0) + 1);
  scheduleRestart();
  return () => {
    for (const id of ids) {
      const count = (followed.get(id) ?? 1) - 1;
      if (count > 0) followed.set(id, count);
      else followed.delete(id);
    }
    scheduleRestart();
  };
}

const followedPath = (): string | null => (followed.size ? `/stream${query({ topics: "metrics,events,log", runs: [...followed.keys()].sort().join(",") })}` : null);

let asked: string | null = null;
let scheduled = false;

/** A view that changes follows and unfollows in one moment: that is one new stream. */
function scheduleRestart(): void {
  if (scheduled) return;
  scheduled = true;
  queueMicrotask(() => {
    scheduled = false;
    if (followedPath() === asked) return;
    asked = followedPath();
    runs?.restart(true);
  });
}

export function retryNow(): void {
  store?.retryNow();
  runs?.retryNow();
}

/** Runs for the life of the page. */
export function startStream(): void {
  store = new Kept(
    () => "/stream?topics=runs,queue,sweeps,models",
    (again) => {
      if (again) resyncs.value++;
      connection.value = "live";
      if (again) runs?.retryNow();
    },
    () => (connection.value = "lost"),
    (seconds) => (retryIn.value = seconds),
  );
  runs = new Kept(
    followedPath,
    // What came between the views' own requests and this moment is in no event: they look once more.
    () => {
      for (const id of followed.keys()) for (const topic of OF_RUNS) tell(topic, { run: id });
    },
    () => undefined,
    () => undefined,
  );
  let hidden: ReturnType<typeof setTimeout> | undefined;
  // A browser opens six connections to one server: tabs that nobody sees give theirs back.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (!document.hidden) retryNow();
    else
      hidden = setTimeout(() => {
        store?.restart(false);
        runs?.restart(false);
      }, HIDDEN_MS);
  });
}
