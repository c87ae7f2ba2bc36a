/* Where a value stands on the axis of a setting or of the result: a share of its length, with round numbers beside it. */
import { linearTicks, logTicks } from "../../chart/ticks";
import { flow } from "../../experiment/values";
import type { Json } from "../../experiment/fields";
import type { Dimension, SweepDocument, Trial } from "./types";

export interface Tick {
  at: number;
  label: string;
}

export interface Axis {
  name: string;
  at: (value: Json | undefined) => number | null;
  text: (value: Json | undefined) => string;
  ticks: Tick[];
}

const MOST_TICKS = 5;

export function settingAxis(path: string, dimension: Dimension): Axis {
  const { choices } = dimension;
  if (choices !== undefined) {
    const words = choices.map((choice) => JSON.stringify(choice));
    const place = (index: number): number => (choices.length > 1 ? (index + 0.5) / choices.length : 0.5);
    return {
      name: path,
      at: (value) => {
        const index = words.indexOf(JSON.stringify(value));
        return index < 0 ? null : place(index);
      },
      text: (value) => (value === undefined ? "" : short(value)),
      ticks: choices.map((choice, index) => ({ at: place(index), label: short(choice) })),
    };
  }
  return numberAxis(path, dimension.low ?? 0, dimension.high ?? 1, dimension.log ?? false);
}

export function resultAxis(sweep: SweepDocument): Axis {
  const values = sweep.trials.map((trial) => trial.value).filter((value) => value !== null);
  const low = Math.min(...values);
  const high = Math.max(...values);
  const margin = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
  return numberAxis(sweep.metric, values.length > 0 ? low - margin : 0, values.length > 0 ? high + margin : 1, false);
}

export function numberAxis(name: string, low: number, high: number, log: boolean): Axis {
  const scale = log ? Math.log : (value: number): number => value;
  const from = scale(low);
  const length = scale(high) - from || 1;
  const at = (value: Json | undefined): number | null => (typeof value === "number" ? (scale(value) - from) / length : null);
  const round = log ? logTicks(low, high, MOST_TICKS) : linearTicks(low, high, MOST_TICKS);
  return { name, at, text: (value) => (typeof value === "number" ? settingText(value) : ""), ticks: round.map((value) => ({ at: at(value) ?? 0, label: settingText(value) })) };
}

/** As people write settings: 0.05, 256, 3e-4. */
export function settingText(value: number): string {
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(4));
  if (Math.abs(rounded) >= 1e-2 && Math.abs(rounded) < 1e5) return String(rounded);
  return Number(rounded.toPrecision(3)).toExponential().replace("+", "");
}

const LONGEST = 14;

function short(value: Json): string {
  const text = typeof value === "number" ? settingText(value) : flow(value);
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`;
}

export function better(sweep: Pick<SweepDocument, "direction">, one: number, other: number): boolean {
  return sweep.direction === "minimize" ? one < other : one > other;
}

/** The value of the best trial up to each one that has been to its end, in the order in which trials were chosen. What
    a trial is worth is the bound of its mean over seeds, so a higher mean alone makes no trial the best. */
export function bestSoFar(sweep: SweepDocument): { trial: Trial; best: number }[] {
  const steps: { trial: Trial; best: number }[] = [];
  let best: { value: number; bound: number } | null = null;
  for (const trial of sweep.trials) {
    const { value, bound } = trial;
    if (trial.state !== "COMPLETED" || value === null || bound === null) continue;
    if (best === null || better(sweep, bound, best.bound)) best = { value, bound };
    steps.push({ trial, best: best.value });
  }
  return steps;
}

/** Shares of the way from the worst (0) to the best (1) result, for colours. */
export function merit(sweep: SweepDocument): (value: number | null) => number {
  const values = sweep.trials.map((trial) => trial.value).filter((value) => value !== null);
  const low = Math.min(...values);
  const high = Math.max(...values);
  const length = high - low || 1;
  return (value) => {
    if (value === null) return 0;
    const share = (value - low) / length;
    return sweep.direction === "minimize" ? 1 - share : share;
  };
}

/** A field through scattered points (inverse distances in the unit square), on a grid from the lower left corner. */
export function field(points: readonly (readonly [number, number, number])[], columns: number, rows: number): Float32Array {
  const grid = new Float32Array(columns * rows);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const x = (column + 0.5) / columns;
      const y = (row + 0.5) / rows;
      let weights = 0;
      let sum = 0;
      for (const [px, py, value] of points) {
        const square = (px - x) ** 2 + (py - y) ** 2 + 2e-3;
        const weight = 1 / (square * Math.sqrt(square));
        weights += weight;
        sum += weight * value;
      }
      grid[row * columns + column] = weights > 0 ? sum / weights : 0;
    }
  }
  return grid;
}
