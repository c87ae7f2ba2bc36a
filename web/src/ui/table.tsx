/** A table of any length: only the rows in sight exist. Keys: j k (arrows), x, Enter, Home, End; the view adds its own. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useKeys } from "../keys";
import { Icon } from "./icon";

export interface Column<Row> {
  name: string;
  title: string;
  /** A track of the CSS grid: "80px", "minmax(160px, 2fr)". */
  width: string;
  right?: boolean;
  sortable?: boolean;
  cell: (row: Row) => ComponentChildren;
}

export interface Sort {
  name: string;
  descending: boolean;
}

export interface Position {
  /** Pixels above what is in sight. */
  top: number;
  /** The row of the keys; -1 for none. */
  at: number;
}

export interface TableProps<Row> {
  /** What the rows are, in plural: "runs". */
  label: string;
  /** Where the table stands when it is shown; kept up to date, so that it can be shown again as it was. */
  position?: Position;
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  columns: readonly Column<Row>[];
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  onOpen?: (row: Row) => void;
  /** Rows can be selected if this is given. */
  selected?: ReadonlySet<string>;
  onSelect?: (selected: Set<string>) => void;
  /** The keys that selecting a row selects; a group selects its members. */
  members?: (row: Row) => string[];
  /** A row on a narrow screen, in place of the columns. */
  narrow?: (row: Row) => ComponentChildren;
  narrowHeight?: number;
  rowClass?: (row: Row) => string;
  /** Hears which rows are in sight. */
  onVisible?: (rows: readonly Row[]) => void;
  empty?: ComponentChildren;
  foot?: ComponentChildren;
}

const OVERSCAN = 8;
const NARROW = matchMedia("(max-width: 720px)");
const SELECT = "30px";

function useNarrow(): boolean {
  const narrow = useSignal(NARROW.matches);
  useEffect(() => {
    const changed = (): void => void (narrow.value = NARROW.matches);
    NARROW.addEventListener("change", changed);
    return () => NARROW.removeEventListener("change", changed);
  }, []);
  return narrow.value;
}

export function VirtualTable<Row>(props: TableProps<Row>) {
  const { label, rows, rowKey, columns, selected, onSelect, onOpen, onVisible } = props;
  const members = props.members ?? ((row: Row) => [rowKey(row)]);
  const scroller = useRef<HTMLDivElement>(null);
  const view = useSignal({ top: 0, height: 800 });
  const { position } = props;
  const at = useSignal(-1);
  const anchor = useRef(-1);
  const narrow = useNarrow() && props.narrow !== undefined;
  const coarse = matchMedia("(pointer: coarse)").matches;
  const rowHeight = narrow ? (props.narrowHeight ?? 58) : coarse ? 44 : 34;

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    if (position) {
      element.scrollTop = position.top;
      at.value = position.at;
    }
    const measure = (): void => {
      view.value = { top: element.scrollTop, height: element.clientHeight };
      if (position) position.top = element.scrollTop;
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, [position]);

  const first = Math.max(0, Math.floor(view.value.top / rowHeight) - OVERSCAN);
  const last = Math.min(rows.length, Math.ceil((view.value.top + view.value.height) / rowHeight) + OVERSCAN);
  const visible = rows.slice(first, last);
  const visibleKeys = visible.map(rowKey).join();
  useEffect(() => onVisible?.(visible), [visibleKeys]);

  const stand = (index: number): void => {
    at.value = index;
    if (position) position.at = index;
  };
  const move = (index: number): void => {
    const to = Math.max(0, Math.min(rows.length - 1, index));
    stand(to);
    const element = scroller.current;
    if (!element) return;
    const head = narrow ? 0 : 32;
    if (to * rowHeight < element.scrollTop) element.scrollTop = to * rowHeight;
    else if ((to + 1) * rowHeight > element.scrollTop + element.clientHeight - head) element.scrollTop = (to + 1) * rowHeight - element.clientHeight + head;
  };
  const isChosen = (row: Row): boolean => {
    const keys = members(row);
    return keys.length > 0 && keys.every((key) => selected?.has(key));
  };
  const toggle = (index: number, through: boolean): void => {
    const row = rows[index];
    if (!row || !onSelect) return;
    const chosen = !isChosen(row);
    const changed = new Set(selected);
    const from = through && anchor.current >= 0 ? Math.min(anchor.current, index) : index;
    const to = through && anchor.current >= 0 ? Math.max(anchor.current, index) : index;
    for (const other of rows.slice(from, to + 1))
      for (const key of members(other))
        if (chosen) changed.add(key);
        else changed.delete(key);
    anchor.current = index;
    onSelect(changed);
  };
  const open = (): void => {
    const row = rows[at.value];
    if (row) onOpen?.(row);
  };

  useKeys(`Table of ${label}`, {
    j: ["Next row", () => move(at.value + 1)],
    k: ["Previous row", () => move(at.value - 1)],
    ArrowDown: ["Next row", () => move(at.value + 1)],
    ArrowUp: ["Previous row", () => move(at.value - 1)],
    Home: ["First row", () => move(0)],
    End: ["Last row", () => move(rows.length - 1)],
    ...(onOpen ? { Enter: ["Open the row", open] as const } : {}),
    ...(onSelect
      ? {
          x: ["Select or deselect the row", () => toggle(at.value, false)] as const,
          Escape: ["Select nothing", () => onSelect(new Set())] as const,
        }
      : {}),
  });

  const all = onSelect !== undefined && rows.length > 0 && rows.every(isChosen);
  const toggleAll = (): void => onSelect?.(all ? new Set() : new Set(rows.flatMap(members)));
  const template = [...(onSelect ? [SELECT] : []), ...columns.map((column) => column.width)].join(" ");

  return (
    <div class="grid" style={{ "--columns": template }}>
      <div class="grid-scroll" ref={scroller} role="grid" aria-label={label} aria-rowcount={rows.length + 1} aria-multiselectable={onSelect ? true : undefined} aria-activedescendant={at.value >= first && at.value < last ? `row-${at.value}` : undefined} tabIndex={0}>
        <div class="grid-inner" role="presentation" style={narrow ? "min-width:0" : undefined}>
          {!narrow && <Head columns={columns} sort={props.sort} onSort={props.onSort} all={onSelect && all} onAll={toggleAll} label={label} />}
          <div class="grid-rows" role="rowgroup" style={{ height: `${rows.length * rowHeight}px` }}>
            {visible.map((row, offset) => {
              const index = first + offset;
              const chosen = isChosen(row);
              return (
                <div
                  key={rowKey(row)}
                  id={`row-${index}`}
                  role="row"
                  aria-rowindex={index + 2}
                  aria-selected={onSelect ? chosen : undefined}
                  class={`grid-row ${chosen ? "chosen" : ""} ${index === at.value ? "at" : ""} ${narrow ? "narrow" : ""} ${props.rowClass?.(row) ?? ""}`}
                  style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}
                  onClick={(event) => {
                    stand(index);
                    if (!(event.target as HTMLElement).closest("a, button, input, label") && !getSelection()?.toString()) onOpen?.(row);
                  }}
                >
                  {narrow ? (
                    <div role="gridcell">{props.narrow?.(row)}</div>
                  ) : (
                    <>
                      {onSelect && (
                        <div class="grid-cell" role="gridcell">
                          <input type="checkbox" tabIndex={-1} aria-label={`Select row ${index + 1}`} checked={chosen} onClick={(event) => toggle(index, event.shiftKey)} />
                        </div>
                      )}
                      {columns.map((column) => (
                        <div key={column.name} role="gridcell" class={`grid-cell ${column.right ? "right" : ""}`}>
                          {column.cell(row)}
                        </div>
                      ))}
                    </>
                  )}
                </div>
              );
            })}
          </div>
          {rows.length === 0 && <div role="row"><div role="gridcell">{props.empty}</div></div>}
        </div>
      </div>
      {props.foot !== undefined && <div class="grid-foot">{props.foot}</div>}
    </div>
  );
}

interface HeadProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  sort: Sort | undefined;
  onSort: ((sort: Sort) => void) | undefined;
  /** Whether all rows are selected; undefined where none can be. */
  all: boolean | undefined;
  onAll: () => void;
}

function Head<Row>({ label, columns, sort, onSort, all, onAll }: HeadProps<Row>) {
  return (
    <div class="grid-head" role="row" aria-rowindex={1}>
      {all !== undefined && (
        <div class="grid-cell" role="columnheader" aria-label="Selection">
          <input type="checkbox" aria-label={`Select all ${label}`} checked={all} onClick={onAll} />
        </div>
      )}
      {columns.map((column) => {
        const sorted = sort?.name === column.name;
        return (
          <div key={column.name} role="columnheader" class={`grid-cell ${column.right ? "right" : ""}`} aria-sort={sorted ? (sort.descending ? "descending" : "ascending") : column.sortable ? "none" : undefined}>
            {column.sortable && onSort ? (
              <button type="button" onClick={() => onSort({ name: column.name, descending: sorted ? !sort.descending : true })}>
                {column.title}
                {sorted && <Icon name={sort.descending ? "down" : "up"} size={12} />}
              </button>
            ) : (
              column.title
            )}
          </div>
        );
      })}
    </div>
  );
}
