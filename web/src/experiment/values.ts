/* Values as YAML on one line. Needs no YAML reader, so every view may use it. */
import { isSection, type Json } from "./fields";

/** A value on one line, as people write settings. */
export function flow(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  if (isSection(value)) {
    const entries = Object.entries(value).map(([name, inner]) => `${key(name)}: ${flow(inner)}`);
    return entries.length > 0 ? `{ ${entries.join(", ")} }` : "{}";
  }
  if (typeof value === "number") return number(value);
  return typeof value === "string" ? key(value) : String(value);
}

/** 0.001 is 1e-3 for people who set learning rates; both read back to the same number. */
export function number(value: number): string {
  if (value !== 0 && Math.abs(value) < 1e-2 && Number.isFinite(value)) return value.toExponential();
  return Math.abs(value) >= 1e21 ? value.toExponential().replace("+", "") : String(value);
}

export function key(text: string | number | undefined): string {
  const word = String(text);
  const isPlain = /^[A-Za-z_][\w./:+-]*$/.test(word) && !word.endsWith(":") && !/^(true|false|null|y|n|yes|no|on|off)$/i.test(word);
  return isPlain ? word : JSON.stringify(word);
}
