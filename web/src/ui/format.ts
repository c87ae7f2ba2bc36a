/** Numbers and times as the page writes them. */
import { signal } from "@preact/signals";

const MISSING = "–";

/** Four significant digits, as the tables of `rlctl` have them. */
export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2).replace("e+", "e");
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size || 1)));
  // Rounded first, and by what the number is, not by how it is written: 114.85 is a little less, so 114.8 as in Python.
  const rounded = Number(value.toFixed(Math.min(decimals, 4)));
  return rounded.toLocaleString("en-US", { minimumFractionDigits: Math.min(decimals, 3), maximumFractionDigits: Math.min(decimals, 4) });
}

/** What was measured, such as a return, beside others of its kind: 58.00 under 72.35, as `rlctl` writes them. */
export function measured(value: number | null | undefined): string {
  if (!value || !Number.isInteger(value) || Math.abs(value) >= 1e3) return number(value);
  return value.toFixed(3 - Math.floor(Math.log10(Math.abs(value))));
}

export const count = (value: number | null | undefined): string => (value === null || value === undefined ? MISSING : Math.round(value).toLocaleString("en-US"));

/** 12.4k, 3.1M: for axes and narrow columns. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const)
    if (size >= limit) return `${trim((value / limit).toFixed(size / limit < 10 ? 2 : 1))}${unit}`;
  return number(value);
}

/** A tick of an axis: no digits that say nothing. */
export function axis(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && size < 1e-3) return value.toExponential(1).replace(".0e", "e");
  return size >= 1e3 ? short(value) : String(Number(value.toPrecision(6)));
}

const trim = (text: string): string => text.replace(/\.?0+$/, "");

export function bytes(value: number): string {
  for (const [limit, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const)
    if (value >= limit) return `${(value / limit).toFixed(1)} ${unit}`;
  return `${value} B`;
}

export function seconds(value: number): string {
  const whole = Math.max(0, Math.round(value));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (part: number): string => String(part).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

export const epoch = (time: string | number): number => (typeof time === "number" ? time : Date.parse(time) / 1000);

/** Moves on while the page is open, so that what shows an age shows it anew. */
const now = signal(Date.now());
const AGE_MS = 20_000;
setInterval(() => !document.hidden && (now.value = Date.now()), AGE_MS);
document.addEventListener("visibilitychange", () => (now.value = Date.now()));

/** "just now", "4 min ago", "3 h ago", "12 Nov" */
export function ago(time: string | number): string {
  const age = now.value / 1000 - epoch(time);
  if (!Number.isFinite(age)) return MISSING;
  if (age < 45) return "just now";
  if (age < 3600) return `${Math.max(1, Math.round(age / 60))} min ago`;
  if (age < 86_400) return `${Math.round(age / 3600)} h ago`;
  if (age < 7 * 86_400) return `${Math.round(age / 86_400)} d ago`;
  return new Date(epoch(time) * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

export const clock = (time: string | number): string => new Date(epoch(time) * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** Any JSON value in one line. */
export function plain(value: unknown): string {
  if (value === null || value === undefined) return MISSING;
  if (typeof value === "number") return number(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
