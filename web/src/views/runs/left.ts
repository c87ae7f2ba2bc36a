/** The table as it was when somebody opened one of its runs: the way back leads there. */
import { signal } from "@preact/signals";
import { href, param, place } from "../../router";
import type { Position } from "../../ui/table";

export const chosen = signal<ReadonlySet<string>>(new Set());

/** Filters, order, groups and columns. */
export const tableAddress = signal(href(["runs"]));

/** What decides which rows stand where. A group that opens moves nobody away. */
const ROWS = ["q", "state", "env", "algo", "tag", "sort", "group"];
let of = "";
let position: Position = { top: 0, at: -1 };

/** Called while the table is shown. Other rows than before begin at their top. */
export function positionOfTable(): Position {
  const rows = ROWS.map(param).join("\n");
  if (rows !== of) position = { top: 0, at: -1 };
  of = rows;
  tableAddress.value = href(["runs"], place.value.query);
  return position;
}
