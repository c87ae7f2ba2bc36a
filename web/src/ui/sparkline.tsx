/** A curve in the height of a line of text. */
export function Sparkline({ values, width = 88, height = 20 }: { values: readonly (number | null)[] | undefined; width?: number; height?: number }) {
  const known = values?.filter((value): value is number => value !== null && Number.isFinite(value)) ?? [];
  if (!values || known.length < 2) return <svg width={width} height={height} aria-hidden="true" />;
  const low = Math.min(...known);
  const span = Math.max(...known) - low || 1;
  const step = (width - 4) / Math.max(1, values.length - 1);
  let path = "";
  let last: [number, number] = [0, 0];
  values.forEach((value, index) => {
    if (value === null || !Number.isFinite(value)) return;
    last = [2 + index * step, height - 3 - ((value - low) / span) * (height - 6)];
    path += `${path ? "L" : "M"}${last[0].toFixed(1)} ${last[1].toFixed(1)}`;
  });
  return (
    <svg width={width} height={height} aria-hidden="true" class="sparkline">
      <path d={path} fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round" />
      <circle cx={last[0]} cy={last[1]} r="1.8" fill="currentColor" />
    </svg>
  );
}
