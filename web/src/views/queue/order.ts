/** The ids with one of them moved by so many places, as far as their order changes; null where it cannot move. */
export function moved(ids: readonly string[], id: string, by: number): string[] | null {
  const from = ids.indexOf(id);
  const to = Math.max(0, Math.min(ids.length - 1, from + by));
  if (from < 0 || from === to) return null;
  const others = ids.filter((other) => other !== id);
  return [...others.slice(0, to), id];
}
