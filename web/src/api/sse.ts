/** Reads server-sent events from one request. */
import { API } from "./client";

export interface Hearer {
  opened: () => void;
  event: (topic: string, data: Record<string, unknown>) => void;
  id: (id: string) => void;
}

/** asked: this page ended it; over: the server did, in good order; refused: not signed in; lost: everything else. */
export type End = "asked" | "over" | "refused" | "lost";

/** The server sends at least a comment each 10 s; after this long without a byte the connection counts as lost. */
const SILENCE_MS = 25_000;

export async function readEvents(path: string, lastId: string, controller: AbortController, hearer: Hearer): Promise<End> {
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
    const response = await fetch(API + path, { headers, signal: controller.signal });
    if (response.status === 401) return "refused";
    if (!response.ok || !response.body) return "lost";
    hearer.opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "over";
      heard();
      rest = deliver(rest + value.replaceAll("\r\n", "\n"), hearer);
    }
  } catch {
    return controller.signal.aborted && !silent ? "asked" : "lost";
  } finally {
    clearTimeout(watchdog);
  }
}

/** Hands over every complete event of `text`; returns the beginning of the next one. */
function deliver(text: string, hearer: Hearer): string {
  const blocks = text.split("\n\n");
  const rest = blocks.pop() ?? "";
  for (const block of blocks) {
    let topic = "message";
    let id: string | null = null;
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") topic = value;
      else if (field === "data") data.push(value);
      else if (field === "id") id = value;
    }
    if (data.length) hearer.event(topic, JSON.parse(data.join("\n")) as Record<string, unknown>);
    if (id !== null) hearer.id(id);
  }
  return rest;
}
