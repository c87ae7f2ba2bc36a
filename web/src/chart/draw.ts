/** Puts curves on a canvas. A curve with more points than pixels is drawn by the lowest and highest value of each pixel column. */
import { type Prepared, span } from "./curve";

export interface Frame {
  context: CanvasRenderingContext2D;
  /** Value to canvas pixel; NaN where the axis has no place for it. */
  toX: (value: number) => number;
  toY: (value: number) => number;
  min: number;
  max: number;
  /** Pixels of the canvas for one of the page. */
  ratio: number;
  width: number;
}

export interface Style {
  colour: string;
  width: number;
  opacity: number;
  dashed: boolean;
}

export function drawBand(frame: Frame, { x, low, high }: Prepared, colour: string): void {
  if (!low || !high) return;
  const { context, toX, toY } = frame;
  const [from, to] = span(x, frame.min, frame.max);
  context.beginPath();
  let started = false;
  for (let i = from; i < to; i++) {
    const y = toY(high[i] as number);
    if (!Number.isFinite(y)) continue;
    if (started) context.lineTo(toX(x[i] as number), y);
    else context.moveTo(toX(x[i] as number), y);
    started = true;
  }
  for (let i = to - 1; i >= from; i--) {
    const y = toY(low[i] as number);
    if (Number.isFinite(y)) context.lineTo(toX(x[i] as number), y);
  }
  context.globalAlpha = 0.16;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 1;
}

export function drawLine(frame: Frame, x: Float64Array, y: Float64Array, style: Style): void {
  const { context } = frame;
  const [from, to] = span(x, frame.min, frame.max);
  context.beginPath();
  let isDot = false;
  if (to - from > frame.width * 2) columns(frame, x, y, from, to);
  else isDot = points(frame, x, y, from, to);
  context.strokeStyle = style.colour;
  context.globalAlpha = style.opacity;
  context.lineWidth = style.width * frame.ratio;
  context.lineJoin = "round";
  context.setLineDash(style.dashed ? [5 * frame.ratio, 4 * frame.ratio] : []);
  context.stroke();
  if (isDot) {
    context.fillStyle = style.colour;
    context.fill();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

/** Every point. One missing value is bridged if its neighbours are: metrics of one run do not share their steps.
    True where there is only one, which is drawn as a dot. */
function points({ context, toX, toY, ratio }: Frame, x: Float64Array, y: Float64Array, from: number, to: number): boolean {
  let drawn = 0;
  let lastX = 0;
  let lastY = 0;
  for (let i = from; i < to; i++) {
    const height = toY(y[i] as number);
    if (!Number.isFinite(height)) continue;
    lastX = toX(x[i] as number);
    lastY = height;
    if (drawn++) context.lineTo(lastX, lastY);
    else context.moveTo(lastX, lastY);
  }
  if (drawn === 1) context.arc(lastX, lastY, 1.8 * ratio, 0, 7);
  return drawn === 1;
}

function columns({ context, toX, toY }: Frame, x: Float64Array, y: Float64Array, from: number, to: number): void {
  const left = toX(x[from] as number);
  const first = x[from] as number;
  // Both axes of x (steps, time) are linear, so that one factor replaces a call for each point.
  const scale = (toX(x[to - 1] as number) - left) / ((x[to - 1] as number) - first || 1);
  let column = Number.NaN;
  let low = 0;
  let high = 0;
  let rising = true;
  const emit = (): void => {
    const a = toY(rising ? low : high);
    const b = toY(rising ? high : low);
    if (Number.isFinite(a)) context.lineTo(column, a);
    if (b !== a && Number.isFinite(b)) context.lineTo(column, b);
  };
  for (let i = from; i < to; i++) {
    const value = y[i] as number;
    if (value !== value) continue;
    const at = Math.round(left + ((x[i] as number) - first) * scale);
    if (at === column) {
      if (value < low) {
        low = value;
        rising = false;
      } else if (value > high) {
        high = value;
        rising = true;
      }
      continue;
    }
    if (column === column) emit();
    column = at;
    low = value;
    high = value;
    rising = true;
  }
  if (column === column) emit();
}
