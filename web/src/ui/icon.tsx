/** Line icons of 16 by 16, drawn for this page. */
const PATHS = {
  runs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  compare: "M2 12.5c3 0 3-7 6-7s3 3.5 6 3.5M2 9.5c3 0 4-6 7-6s3 1.5 5 1.5",
  sweep: "M3 13V9M6.3 13V5M9.7 13V7.5M13 13V3",
  registry: "M2.5 5 8 2.2 13.5 5v6L8 13.8 2.5 11ZM2.5 5 8 7.8 13.5 5M8 7.8v6",
  add: "M8 3v10M3 8h10",
  queue: "M2.5 3.5h11v3h-11zM2.5 9.5h11v3h-11z",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.3 10.3 13.5 13.5",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5 6.5 12 13 4.5",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4 6 8l4 4",
  up: "M4 10l4-4 4 4",
  more: "M2.9 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0M7.4 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0M11.9 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0",
  stop: "M4 4h8v8H4z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7.5-4.5Z",
  fork: "M4.5 5.5v5M4.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM4.5 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM11.5 6.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM11.5 6.5c0 3-7 1.5-7 4",
  tag: "M2.5 7.5v-5h5l6 6-5 5ZM5.3 5.3h.01",
  trash: "M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.5 9h6l.5-9",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.5h10",
  sun: "M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z",
  help: "M6 6.2a2 2 0 1 1 2.7 1.9c-.5.2-.7.5-.7 1v.4M8 11.7h.01M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Z",
  warning: "M8 2.2 14.3 13H1.7ZM8 6.5v3M8 11.3h.01",
  save: "M4 2.5h8v11l-4-3-4 3Z",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  group: "M2.5 3.5h11M5 8h8.5M5 12.5h8.5",
  chart: "M2.5 2.5v11h11M5 10.5l2.5-3.5 2 2 3.5-5",
  link: "M6.5 9.5l3-3M7 4.5l1.2-1.2a2.7 2.7 0 0 1 4 4L11 8.5M9 11.5l-1.2 1.2a2.7 2.7 0 0 1-4-4L5 7.5",
  reset: "M3 8a5 5 0 1 1 1.5 3.5M3 12.5V9.5h3",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  note: "M3.5 2.5h9v7.5L9.5 13.5h-6ZM12.5 10h-3v3.5M6 5.5h4M6 8h2.5",
} as const;

export type IconName = keyof typeof PATHS;

/** Decoration only: the control around it carries the name. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg width="20" height="20" viewBox="0 0 24 24" aria-hidden="true">
      <rect width="24" height="24" rx="6" fill="currentColor" />
      <path d="M5 17c3.5 0 4-3 6-6.5S15 6 19 6" fill="none" stroke="var(--accent-text)" stroke-width="2.2" stroke-linecap="round" />
      <circle cx="11" cy="10.5" r="1.9" fill="var(--accent-text)" />
    </svg>
  );
}
