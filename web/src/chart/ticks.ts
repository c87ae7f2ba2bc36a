/** Round numbers for an axis. */

export function linearTicks(low: number, high: number, most: number): number[] {
  const raw = (high - low) / most;
  if (!(raw > 0) || !Number.isFinite(raw)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw) ?? raw;
  const ticks: number[] = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) ticks.push(Number((n * step).toPrecision(12)));
  return ticks;
}

const FACTORS = [[1], [1, 3], [1, 2, 5]];
const FEWEST = 3;

/** Powers of ten; where there are few of them, what lies between too; in a narrow range the ticks of a linear axis. */
export function logTicks(low: number, high: number, most: number): number[] {
  const powers: number[] = [];
  for (let n = Math.floor(Math.log10(low)); n <= Math.ceil(Math.log10(high)); n++) powers.push(n);
  for (const factors of FACTORS) {
    const ticks = powers.flatMap((power) => factors.map((factor) => Number(`${factor}e${power}`)));
    const inside = ticks.filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
    if (inside.length >= FEWEST) return inside.filter((_, index) => index % Math.ceil(inside.length / most) === 0);
  }
  return linearTicks(low, high, most).filter((tick) => tick > 0);
}
