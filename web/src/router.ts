/**
 * Places of the page: `#/runs/7761?tab=log`. All state of a view that a colleague should see is in the address, so that
 * every address is a permalink. The part after `#` never reaches the server, whose own `/runs/ID` answers JSON.
 */
import { computed, type ReadonlySignal, signal } from "@preact/signals";

export interface Place {
  /** The path in parts: `["runs", "7761"]`. */
  path: string[];
  query: URLSearchParams;
}

function parse(address: string): Place {
  const [path = "", search = ""] = address.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(search) };
}

export const place = signal<Place>(parse(location.hash));
const pathText = computed(() => place.value.path.map(encodeURIComponent).join("/"));
/** The path alone, for what does not care about the query. */
export const path = computed(() => pathText.value.split("/").filter(Boolean).map(decodeURIComponent));

/** Browsers refuse an address that changes more than 200 times in 10 s, as it would while a wheel or a slider turns. */
const PACE_MS = 120;
let waiting: string | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

function write(): void {
  timer = undefined;
  if (waiting === null) return;
  history.replaceState(null, "", waiting);
  waiting = null;
  timer = setTimeout(write, PACE_MS);
}

function writeNow(): void {
  clearTimeout(timer);
  write();
}

/** Whether the back or forward button led here; a link or a key did otherwise. */
export let isRevisit = false;
let leaving = 0;
const LINK_MS = 400;

// Whoever leaves by a link, or loads the page again, leaves the newest address behind.
window.addEventListener("click", () => (writeNow(), (leaving = Date.now())), { capture: true });
window.addEventListener("pagehide", writeNow);
window.addEventListener("hashchange", () => {
  waiting = null;
  isRevisit = Date.now() - leaving > LINK_MS;
  place.value = parse(location.hash);
});

type Query = Record<string, string | number | boolean | null | undefined> | URLSearchParams;

function text(query: Query): string {
  if (query instanceof URLSearchParams) return query.toString();
  const values = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return new URLSearchParams(values.map(([name, value]) => [name, String(value)])).toString();
}

/** The address of a place, for links. Commas and slashes stay readable. */
export function href(path: readonly string[], query: Query = {}): string {
  const search = text(query).replaceAll("%2C", ",").replaceAll("%2F", "/");
  return `#/${path.map(encodeURIComponent).join("/")}${search && `?${search}`}`;
}

/** Goes to a place; `replace` leaves no step behind for the back button. */
export function go(address: string, replace = false): void {
  if (replace) {
    waiting = address;
    if (timer === undefined) write();
  } else {
    writeNow();
    history.pushState(null, "", address);
    isRevisit = false;
  }
  place.value = parse(address);
}

const params = new Map<string, ReadonlySignal<string>>();

/** One value of the query; "" where it is not set. Who reads it hears of its changes alone. */
export function param(name: string): string {
  let value = params.get(name);
  if (!value) params.set(name, (value = computed(() => place.value.query.get(name) ?? "")));
  return value.value;
}

/** Changes values of the query and keeps the others. An empty value goes away. */
export function setParams(changes: Record<string, string | number | boolean | null | undefined>, replace = true): void {
  const query = new URLSearchParams(place.peek().query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) query.delete(name);
    else query.set(name, value === true ? "1" : String(value));
  }
  go(href(place.peek().path, query), replace);
}
