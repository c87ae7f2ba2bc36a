/**
 * Places of the page: `#/runs/7761?tab=log`. All state of a view that a colleague should see is in the address, so that
 * every address is a permalink. The part after `#` never reaches the server, whose own `/runs/ID` answers JSON.
 */
import { computed, signal } from "@preact/signals";

export interface Place {
  /** The path in parts: `["runs", "7761"]`. */
  path: string[];
  query: URLSearchParams;
}

function read(): Place {
  const hash = location.hash.replace(/^#\/?/, "");
  const [path = "", search = ""] = hash.split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(search) };
}

export const place = signal<Place>(read());
export const viewName = computed(() => place.value.path[0] ?? "");

window.addEventListener("hashchange", () => {
  place.value = read();
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
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  place.value = read();
}

/** One value of the query; "" where it is not set. */
export const param = (name: string): string => place.value.query.get(name) ?? "";

/** Changes values of the query and keeps the others. An empty value goes away. */
export function setParams(changes: Record<string, string | number | boolean | null | undefined>, replace = true): void {
  const query = new URLSearchParams(place.peek().query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) query.delete(name);
    else query.set(name, value === true ? "1" : String(value));
  }
  go(href(place.peek().path, query), replace);
}
