/**
 * The one live connection of the page: server-sent events read with `fetch`, because EventSource neither takes a
 * Last-Event-ID of its own nor tells a refused login from a lost network.
 *
 * Events only say what changed; views fetch from their own cursor or replace a document by its id. So an event that
 * comes twice shows nothing twice, and after a gap one `resync` brings everything that was missed.
 */
import { effect, signal } from "@preact/signals";
import { API, query, signedOut } from "./client";

export interface StreamEvent {
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

/** The server sends at least a comment each 10 s; after this long without a byte the connection counts as lost. */
const SILENCE_MS = 25_000;
const TOPICS = "runs,metrics,events,log,queue,sweeps,models";
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;
const HIDDEN_MS = 5_000;

const listeners = new Set<Listener>();
const followed = new Map<string, number>();
const wanted = signal("");
let lastId = "";
let abort: AbortController | null = null;
let wake: (() => void) | null = null;

/** Calls `listener` for each event; returns what ends it. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Asks for metrics, events and log of these runs, in addition to what the stream always brings. */
export function follow(runs: readonly string[]): () => void {
  for (const run of runs) followed.set(run, (followed.get(run) ?? 0) + 1);
  publish();
  return () => {
    for (const run of runs) {
      const count = (followed.get(run) ?? 1) - 1;
      if (count > 0) followed.set(run, count);
      else followed.delete(run);
    }
    publish();
  };
}

function publish(): void {
  wanted.value = [...followed.keys()].sort().join(",");
}

export function retryNow(): void {
  wake?.();
}

/** Runs for the life of the page. */
export function startStream(): void {
  let started = "";
  effect(() => {
    if (wanted.value !== started) {
      started = wanted.value;
      abort?.abort();
    }
  });
  let hidden: ReturnType<typeof setTimeout> | undefined;
  // A browser opens six connections to one server: tabs that nobody sees give theirs back.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => abort?.abort(), HIDDEN_MS);
    else retryNow();
  });
  void keepConnected();
}

async function keepConnected(): Promise<never> {
  let retry = FIRST_RETRY_MS;
  for (;;) {
    if (document.hidden || signedOut.value) {
      await pause(60_000, false);
      continue;
    }
    const ended = await readOnce(() => {
      retry = FIRST_RETRY_MS;
      if (connection.value === "lost") resyncs.value++;
      connection.value = "live";
    });
    if (ended === "asked") continue;
    connection.value = "lost";
    await pause(retry, true);
    retry = Math.min(retry * 2, LONGEST_RETRY_MS);
  }
}

function pause(ms: number, counted: boolean): Promise<void> {
  return new Promise((resolve) => {
    const until = Date.now() + ms;
    const tick = setInterval(() => {
      if (counted) retryIn.value = Math.max(0, Math.ceil((until - Date.now()) / 1000));
      if (Date.now() >= until) done();
    }, 250);
    const done = (): void => {
      clearInterval(tick);
      wake = null;
      resolve();
    };
    wake = done;
    if (counted) retryIn.value = Math.ceil(ms / 1000);
  });
}

/** Reads until the stream ends. "asked": this page ended it, to ask for other runs or because it is hidden. */
async function readOnce(opened: () => void): Promise<"asked" | "lost"> {
  const controller = new AbortController();
  abort = controller;
  let silent = false;
  let watchdog: ReturnType<typeof setTimeout> | undefined;
  const heard = (): void => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => {
      silent = true;
      controller.abort();
    }, SILENCE_MS);
  };
  try {
    heard();
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const response = await fetch(`${API}/stream${query({ topics: TOPICS, runs: wanted.peek() })}`, { headers, signal: controller.signal });
    if (response.status === 401) signedOut.value = true;
    if (!response.ok || !response.body) return "lost";
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "lost";
      heard();
      rest = deliver(rest + value.replaceAll("\r\n", "\n"));
    }
  } catch {
    return controller.signal.aborted && !silent ? "asked" : "lost";
  } finally {
    clearTimeout(watchdog);
  }
}

/** Hands over every complete event of `text`; returns the beginning of the next one. */
function deliver(text: string): string {
  const blocks = text.split("\n\n");
  const rest = blocks.pop() ?? "";
  for (const block of blocks) {
    let topic = "message";
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") topic = value;
      else if (field === "data") data.push(value);
      else if (field === "id") lastId = value;
    }
    if (data.length === 0) continue;
    const event = { topic, data: JSON.parse(data.join("\n")) as Record<string, unknown> };
    for (const listener of [...listeners]) listener(event);
  }
  return rest;
}
