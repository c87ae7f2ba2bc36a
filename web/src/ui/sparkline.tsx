type Values = readonly (number | null)[];

const isNumber = (value: number | null): value is number => value !== null && Number.isFinite(value);

/** Curves in the height of a line of text: one with a dot at its end, or several of a group over each other. */
export function Sparkline({ curves, width = 88, height = 20 }: { curves: readonly (Values | undefined)[]; width?: number; height?: number }) {
  const drawn = curves.filter((values): values is Values => (values?.filter(isNumber).length ?? 0) > 1);
  if (!drawn.length) return <svg width={width} height={height} aria-hidden="true" />;
  const known = drawn.flatMap((values) => values.filter(isNumber));
  const low = Math.min(...known);
  const span = Math.max(...known) - low || 1;
  const points = drawn.map((values) => {
    const step = (width - 4) / (values.length - 1);
    return values.flatMap((value, index) => (isNumber(value) ? [[2 + index * step, height - 3 - ((value - low) / span) * (height - 6)] as const] : []));
  });
  const [x, y] = points[0]?.at(-1) ?? [0, 0];
  const alone = points.length === 1;
  return (
    <svg width={width} height={height} aria-hidden="true" class="sparkline" fill="none" stroke="currentColor" stroke-width={alone ? 1.4 : 1} stroke-opacity={alone ? 1 : 0.55} stroke-linejoin="round">
      {points.map((line, index) => (
        <path key={index} d={`M${line.map(([left, top]) => `${left.toFixed(1)} ${top.toFixed(1)}`).join("L")}`} />
      ))}
      {alone && <circle cx={x} cy={y} r="1.8" fill="currentColor" stroke="none" />}
    </svg>
  );
}
