import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { theme } from "../theme";
import { number, seconds, short } from "../ui/format";
import { colourOf, type Curve, prepare } from "./curve";
import { type Hover, Plot } from "./plot";
import { setZoom, zoom } from "./zoom";

export interface ChartProps {
  /** What the chart shows, for those who do not see it. */
  label: string;
  curves: readonly Curve[];
  height?: number;
  log?: boolean;
  /** 0 to 1 */
  smoothing?: number;
  xKind?: "steps" | "seconds";
  legend?: boolean;
  /** Hears what its first curve has where the pointer is, in this chart or another one; null where it is nowhere. */
  onRead?: (value: number | null) => void;
  children?: ComponentChildren;
}

const READ = 14;

/** Curves with axes. Drag or Ctrl and the wheel zoom, a double click goes back, the pointer reads all curves at once. */
export function Chart({ label, curves, height = 220, log = false, smoothing = 0, xKind = "steps", legend = false, onRead, children }: ChartProps) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const hover = useSignal<Hover | null>(null);
  const prepared = useMemo(() => curves.map((curve) => prepare(curve, smoothing)), [curves, smoothing]);

  const isBelow = useMemo(() => log && prepared.some(({ y }) => y.length > 0) && !prepared.some(({ y }) => y.some((value) => value > 0)), [prepared, log]);

  const reader = useRef(onRead);
  reader.current = onRead;

  useLayoutEffect(() => {
    const at = element.current;
    if (!at) return;
    const made = new Plot(at, {
      xKind,
      log,
      height,
      onHover: (value) => (hover.value = value),
      onRead: (readings) => reader.current?.(readings[0]?.value ?? null),
      onZoom: setZoom,
    });
    plot.current = made;
    const observer = new ResizeObserver(() => made.resize(at.clientWidth));
    observer.observe(at);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [xKind, log, height]);

  useLayoutEffect(() => plot.current?.set(prepared, zoom.value, smoothing > 0), [prepared, zoom.value, xKind, log, height]);
  useEffect(() => plot.current?.recolour(), [theme.value]);

  return (
    <figure class="chart" style="margin:0" aria-label={`${label}: ${summary(curves)}`}>
      <div class="plot" ref={element} style={{ height: `${height}px` }} />
      {isBelow && <p class="nothing">No value is above zero, so a logarithmic axis shows none.</p>}
      {children}
      {hover.value && <Readings hover={hover.value} xKind={xKind} />}
      {legend && (
        <figcaption class="legend">
          {curves.filter((curve) => !curve.faint).map((curve) => (
            <span key={curve.name} title={curve.name}>
              <i class="dot" style={{ "--dot": colourOf(curve.colour) }} />
              <span class="cut">{curve.name}</span>
            </span>
          ))}
        </figcaption>
      )}
    </figure>
  );
}

function summary(curves: readonly Curve[]): string {
  const named = curves.slice(0, 4).map((curve) => {
    const last = curve.y.length ? curve.y[curve.y.length - 1] : null;
    return `${curve.name} ends at ${number(last)}`;
  });
  return named.join(", ") + (curves.length > 4 ? ` and ${curves.length - 4} more curves` : "") || "no values yet";
}

const placeText = (x: number, xKind: "steps" | "seconds"): string => (xKind === "seconds" ? seconds(x) : short(x));

function Readings({ hover, xKind }: { hover: Hover; xKind: "steps" | "seconds" }) {
  const { readings, nearest, left, width } = hover;
  if (!readings.length) return null;
  const at = nearest ? readings.indexOf(nearest) : 0;
  const from = Math.max(0, Math.min(at - READ / 2, readings.length - READ));
  const style = left < width / 2 ? { left: `${left + 14}px` } : { left: "auto", right: `${width - left + 14}px` };
  return (
    <div class="reading" style={style}>
      <div class="where">{xKind === "seconds" ? "" : "step "}{placeText(hover.x, xKind)}</div>
      <table>
        <tbody>
          {readings.slice(from, from + READ).map((reading) => (
            <tr key={reading.curve.curve.name} class={reading === nearest && readings.length > 1 ? "nearest" : ""}>
              <td class="label">
                <i class="dot" style={{ "--dot": colourOf(reading.curve.curve.colour) }} />
                {reading.curve.curve.name}
                {reading.isFar && <span class="faint"> at {placeText(reading.at, xKind)}</span>}
              </td>
              <td class="number">{number(reading.value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {readings.length > READ && <div class="faint">and {readings.length - READ} more</div>}
    </div>
  );
}
