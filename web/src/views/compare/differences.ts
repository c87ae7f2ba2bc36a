/* Which settings differ between groups: the configs side by side, equal fields left out. */

export type Config = Record<string, unknown>;

export interface Difference {
  field: string;
  values: unknown[]; // one for each config; undefined where it has no such field
}

/** Who and when, which tell two groups apart but do not explain a result. */
const NOT_SETTINGS = new Set(["name", "env.seed"]);

export function differences(configs: readonly Config[]): Difference[] {
  const flat = configs.map((config) => {
    const fields = new Map<string, unknown>();
    flatten(config, "", fields);
    return fields;
  });
  const names = new Set(flat.flatMap((fields) => [...fields.keys()]));
  return [...names]
    .filter((field) => !NOT_SETTINGS.has(field))
    .map((field) => ({ field, values: flat.map((fields) => fields.get(field)) }))
    .filter(({ values }) => new Set(values.map((value) => JSON.stringify(value) ?? "")).size > 1);
}

function flatten(value: unknown, path: string, into: Map<string, unknown>): void {
  const isSection = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isSection || Object.keys(value).length === 0) {
    into.set(path, value);
    return;
  }
  for (const [key, inner] of Object.entries(value)) flatten(inner, path ? `${path}.${key}` : key, into);
}
