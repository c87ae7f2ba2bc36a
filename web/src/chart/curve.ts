/** A curve ready to be drawn: typed arrays, sorted by x, with a smoothed twin where one is asked for. */

export interface Curve {
  name: string;
  /** 1 to 10: a colour of the theme; higher numbers begin again. */
  colour: number;
  x: ArrayLike<number>;
  y: ArrayLike<number | null>;
  /** Both or none: the band around the curve. */
  low?: ArrayLike<number | null> | undefined;
  high?: ArrayLike<number | null> | undefined;
  dashed?: boolean;
  /** Drawn thin and pale, such as the single seeds behind their mean. */
  faint?: boolean;
}

export interface Prepared {
  curve: Curve;
  x: Float64Array;
  /** What was measured. */
  raw: Float64Array;
  /** What is drawn and read: smoothed, or `raw` itself. */
  y: Float64Array;
  low: Float64Array | null;
  high: Float64Array | null;
}

export const COLOURS = 10;
export const colourOf = (colour: number): string => `var(--curve-${((colour - 1) % COLOURS) + 1})`;

/** Missing values become NaN, which no comparison accepts. */
function typed(values: ArrayLike<number | null>): Float64Array {
  if (values instanceof Float64Array) return values;
  const made = new Float64Array(values.length);
  for (let i = 0; i < values.length; i++) made[i] = values[i] ?? NaN;
  return made;
}

/**
 * Exponential mean whose memory is a share of the curve, not a number of points: evaluations, which are few, and losses,
 * which are many, are smoothed alike. Divided by the sum of its weights, so that the beginning is not pulled to zero.
 */
export function smooth(y: Float64Array, amount: number): Float64Array {
  if (amount <= 0) return y;
  const keep = Math.exp(-1 / Math.max(0.5, amount * amount * y.length * 0.2));
  const made = new Float64Array(y.length);
  let sum = 0;
  let weight = 0;
  for (let i = 0; i < y.length; i++) {
    const value = y[i] as number;
    if (Number.isFinite(value)) {
      sum = sum * keep + value * (1 - keep);
      weight = weight * keep + (1 - keep);
      made[i] = sum / weight;
    } else made[i] = NaN;
  }
  return made;
}

export function prepare(curve: Curve, smoothing: number): Prepared {
  const raw = typed(curve.y);
  const banded = curve.low !== undefined && curve.high !== undefined;
  return {
    curve,
    x: typed(curve.x),
    raw,
    y: smooth(raw, smoothing),
    low: banded ? typed(curve.low as ArrayLike<number | null>) : null,
    high: banded ? typed(curve.high as ArrayLike<number | null>) : null,
  };
}

/** The first index whose x is not below `value`. */
export function lowerBound(x: Float64Array, value: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((x[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The index whose x is nearest to `value`; -1 in an empty curve. */
export function nearest(x: Float64Array, value: number): number {
  const after = lowerBound(x, value);
  if (after === 0) return x.length ? 0 : -1;
  if (after === x.length) return x.length - 1;
  return value - (x[after - 1] as number) <= (x[after] as number) - value ? after - 1 : after;
}

/** Indices [from, to) to draw between two places, with one neighbour on each side. */
export function span(x: Float64Array, min: number, max: number): [number, number] {
  return [Math.max(0, lowerBound(x, min) - 1), Math.min(x.length, lowerBound(x, max) + 1)];
}

export function extent(curves: readonly Prepared[]): [number, number] {
  let min = Infinity;
  let max = -Infinity;
  for (const { x } of curves) {
    if (!x.length) continue;
    min = Math.min(min, x[0] as number);
    max = Math.max(max, x[x.length - 1] as number);
  }
  return min <= max ? [min, max] : [0, 1];
}

const BLOCK = 128;
type Blocks = readonly [low: Float64Array, high: Float64Array];
const blocks = new WeakMap<Float64Array, Blocks>();

/** Lowest and highest value of each whole block of a curve, found once: a zoom asks for heights with every frame. */
function blocksOf(values: Float64Array): Blocks {
  const known = blocks.get(values);
  if (known) return known;
  const count = Math.floor(values.length / BLOCK);
  const made = [new Float64Array(count).fill(Infinity), new Float64Array(count).fill(-Infinity)] as const;
  const [low, high] = made;
  for (let i = 0; i < count * BLOCK; i++) {
    const block = Math.floor(i / BLOCK);
    const value = values[i] as number;
    if (value < (low[block] as number)) low[block] = value;
    if (value > (high[block] as number) && value < Infinity) high[block] = value;
  }
  blocks.set(values, made);
  return made;
}

export interface Sight {
  min: number;
  max: number;
  /** Only values above zero, for a log axis. */
  positive: boolean;
  /** What was measured is drawn behind what was smoothed. */
  raw: boolean;
}

/** Lowest and highest value that is drawn between two places. */
export function heights(curves: readonly Prepared[], { min, max, positive, raw: behind }: Sight): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  const floor = positive ? Number.MIN_VALUE : -Infinity;
  const each = (values: Float64Array, from: number, to: number): void => {
    for (let i = from; i < to; i++) {
      const value = values[i] as number;
      if (value < low && value >= floor) low = value;
      if (value > high && value < Infinity) high = value;
    }
  };
  const take = (values: Float64Array, from: number, to: number): void => {
    if (positive || to - from < 4 * BLOCK) return each(values, from, to);
    const [lows, highs] = blocksOf(values);
    const [first, last] = [Math.ceil(from / BLOCK), Math.floor(to / BLOCK)];
    each(values, from, first * BLOCK);
    each(values, last * BLOCK, to);
    for (let block = first; block < last; block++) {
      if ((lows[block] as number) < low) low = lows[block] as number;
      if ((highs[block] as number) > high) high = highs[block] as number;
    }
  };
  for (const { x, y, raw, low: bottom, high: top } of curves) {
    const [from, to] = span(x, min, max);
    take(y, from, to);
    if (behind) take(raw, from, to);
    if (bottom && top) {
      take(bottom, from, to);
      take(top, from, to);
    }
  }
  return [low, high];
}
