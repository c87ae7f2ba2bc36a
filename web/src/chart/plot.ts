/** A chart on uPlot: uPlot keeps scales, axes and cursor, and lends its canvas; the curves are drawn by `draw.ts`. */
import "./language";
import uPlot from "uplot";
import { axis, seconds } from "../ui/format";
import { COLOURS, extent, heights, nearest, type Prepared } from "./curve";
import { drawBand, drawLine, type Frame } from "./draw";
import { logTicks } from "./ticks";
import type { Zoom } from "./zoom";

export interface PlotOptions {
  /** "seconds" since the start are written as h:mm:ss. */
  xKind: "steps" | "seconds";
  log: boolean;
  height: number;
  onHover: (hover: Hover | null) => void;
  /** What each curve has where the pointer is, in this chart or in another one of the view; empty where it is nowhere. */
  onRead: (readings: readonly Reading[]) => void;
  /** Somebody zoomed (a range) or went back (null). */
  onZoom: (zoom: Zoom) => void;
}

export interface Reading {
  at: number;
  value: number;
  /** Too far from the pointer to be taken for its place. */
  isFar: boolean;
  curve: Prepared;
}

export interface Hover {
  x: number;
  /** Pixels from the left of the chart, and its width. */
  left: number;
  width: number;
  readings: Reading[];
  nearest: Reading | undefined;
}

const PAD = 0.06;
const WHEEL = 1.0018;
const TOUCHED_PX = 40;
const CROWD = 12;
const SPACE_PX = 28;
/** The charts of the page: where the pointer is in one of them, all are read. */
const plots = new Set<Plot>();

export class Plot {
  private readonly chart: uPlot;
  private readonly dots: HTMLCanvasElement;
  private curves: readonly Prepared[] = [];
  private smoothed = false;
  private zoom: Zoom = null;
  private colours: string[] = [];
  private lit: Prepared | null = null;

  constructor(
    private readonly element: HTMLElement,
    private readonly options: PlotOptions,
  ) {
    this.readColours();
    this.dots = document.createElement("canvas");
    this.dots.className = "dots";
    this.chart = new uPlot(this.config(), [[0, 1], [null, null]], element);
    this.chart.over.append(this.dots);
    this.chart.over.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.chart.over.addEventListener("dblclick", () => this.options.onZoom(null));
    this.chart.over.addEventListener("mouseleave", () => this.leave());
    plots.add(this);
  }

  destroy(): void {
    plots.delete(this);
    this.chart.destroy();
  }

  resize(width: number): void {
    if (width > 0 && width !== this.chart.width) {
      this.chart.setSize({ width, height: this.options.height });
      this.show();
    }
  }

  /** Other curves or another part of x. */
  set(curves: readonly Prepared[], zoom: Zoom, smoothed: boolean): void {
    this.curves = curves;
    this.smoothed = smoothed;
    this.zoom = zoom;
    this.show();
  }

  recolour(): void {
    this.readColours();
    this.chart.redraw(false, true);
  }

  private readColours(): void {
    const style = getComputedStyle(document.documentElement);
    const of = (name: string): string => style.getPropertyValue(name).trim();
    this.colours = [of("--faint"), ...Array.from({ length: COLOURS }, (_, i) => of(`--curve-${i + 1}`)), of("--grid")];
  }

  private colour(prepared: Prepared): string {
    return this.colours[((prepared.curve.colour - 1) % COLOURS) + 1] as string;
  }

  private config(): uPlot.Options {
    const faint = (): string => this.colours[0] as string;
    const grid = (): string => this.colours[COLOURS + 1] as string;
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const shared = { stroke: faint, font, ticks: { show: false }, grid: { stroke: grid, width: 1 } };
    const time = this.options.xKind === "seconds";
    return {
      width: Math.max(120, this.element.clientWidth),
      height: this.options.height,
      padding: [10, 12, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => null } },
      scales: {
        x: { time: false, auto: false },
        y: { auto: false, distr: this.options.log ? 3 : 1 },
      },
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      axes: [
        { ...shared, size: 28, space: 70, values: (_u, ticks) => ticks.map((tick) => (time ? seconds(tick) : axis(tick))) },
        { ...shared, size: 54, gap: 6, space: SPACE_PX, ...this.logAxis(), values: (_u, ticks) => ticks.map((tick) => (tick === null ? "" : axis(tick))) },
      ],
      hooks: {
        draw: [() => this.draw()],
        setCursor: [() => this.hover()],
        setSelect: [(u) => this.zoomTo(u)],
      },
    };
  }

  /** uPlot begins a logarithmic axis at its end, however that is written. */
  private logAxis(): Partial<uPlot.Axis> {
    if (!this.options.log) return {};
    return { splits: (u, _axis, low, high) => logTicks(low, high, u.bbox.height / devicePixelRatio / SPACE_PX), filter: (_u, ticks) => ticks };
  }

  /** Scales follow what is in sight: y fits the curves between the two ends of x. */
  private show(): void {
    let [min, max] = this.zoom ?? extent(this.curves);
    // A curve of one point stands in the middle.
    if (min === max) [min, max] = [min - (min / 2 || 1), max + (max / 2 || 1)];
    const { log } = this.options;
    let [low, high] = heights(this.curves, { min, max, positive: log, raw: this.hasRaw });
    if (!(low <= high)) [low, high] = log ? [0.1, 1] : [0, 1];
    if (log) {
      [low, high] = low === high ? [low / 2, high * 2] : [low * 0.9, high * 1.1];
    } else {
      const pad = (high - low || Math.abs(high)) * PAD || 1; // a constant zero gets an axis up to one
      // A curve that never falls below zero does not get an axis that does.
      [low, high] = [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
    }
    this.chart.batch(() => {
      this.chart.setScale("x", { min, max });
      this.chart.setScale("y", { min: low, max: high });
    });
  }

  /** Whether what was measured is drawn behind what was smoothed: among many curves it would only be noise. */
  private get hasRaw(): boolean {
    return this.smoothed && this.curves.length <= CROWD;
  }

  private frame(context: CanvasRenderingContext2D): Frame {
    const u = this.chart;
    return {
      context,
      toX: (value) => u.valToPos(value, "x", true),
      toY: (value) => (this.options.log && value <= 0 ? NaN : u.valToPos(value, "y", true)),
      min: u.scales["x"]?.min ?? 0,
      max: u.scales["x"]?.max ?? 1,
      ratio: devicePixelRatio,
      width: u.bbox.width,
    };
  }

  private draw(): void {
    const { ctx, bbox } = this.chart;
    const frame = this.frame(ctx);
    ctx.save();
    ctx.beginPath();
    // Neither a line nor the only point of a curve is cut in half at the edge of the scale.
    const edge = 3 * devicePixelRatio;
    ctx.rect(bbox.left - edge, bbox.top - edge, bbox.width + 2 * edge, bbox.height + 2 * edge);
    ctx.clip();
    for (const prepared of this.curves) drawBand(frame, prepared, this.colour(prepared));
    const crowd = this.curves.length > CROWD;
    const chosen = this.curves.some(({ curve }) => curve.faint); // the others stand out
    for (const prepared of this.curves) {
      const { faint, dashed } = prepared.curve;
      const style = { colour: this.colour(prepared), dashed: dashed === true };
      if (this.hasRaw) drawLine(frame, prepared.x, prepared.raw, { ...style, width: 1, opacity: 0.22 });
      drawLine(frame, prepared.x, prepared.y, { ...style, width: faint ? 1 : chosen ? 2.2 : crowd ? 1 : 1.6, opacity: faint ? 0.38 : 1 });
    }
    if (this.lit && this.curves.length > 1) drawLine(frame, this.lit.x, this.lit.y, { colour: this.colour(this.lit), dashed: false, width: 2.6, opacity: 1 });
    ctx.restore();
  }

  private hover(): void {
    const left = this.chart.cursor.left ?? -1;
    if (left < 0 || !this.curves.length) return this.leave();
    const x = this.chart.posToVal(left, "x");
    const readings = this.read(x);
    const top = this.chart.cursor.top ?? 0;
    const distance = (reading: Reading): number => Math.abs(this.chart.valToPos(reading.value, "y") - top);
    let closest: Reading | undefined;
    for (const reading of readings) if (!closest || distance(reading) < distance(closest)) closest = reading;
    this.light(closest?.curve ?? null);
    const here = closest?.isFar === false ? closest : readings.find((reading) => !reading.isFar);
    this.options.onHover({ x: here?.at ?? x, left: left + (this.chart.over.offsetLeft || 0), width: this.chart.width, readings, nearest: closest });
    for (const other of plots) if (other !== this && other.options.xKind === this.options.xKind) other.follow(x);
  }

  private leave(): void {
    this.light(null);
    this.drawDots([]);
    this.options.onHover(null);
    for (const other of plots) if (other !== this) other.follow(null);
    this.options.onRead([]);
  }

  /** The pointer is at this x of another chart. */
  private follow(x: number | null): void {
    const inside = x !== null && x >= (this.chart.scales["x"]?.min ?? 0) && x <= (this.chart.scales["x"]?.max ?? 0);
    this.chart.setCursor({ left: inside ? this.chart.valToPos(x, "x") : -10, top: 0 }, false);
    if (inside) this.read(x);
    else {
      this.drawDots([]);
      this.options.onRead([]);
    }
  }

  /** The values of all curves at x, the highest first. */
  private read(x: number): Reading[] {
    const left = this.chart.valToPos(x, "x");
    const readings: Reading[] = [];
    for (const curve of this.curves) {
      const index = nearest(curve.x, x);
      if (index < 0) continue;
      const value = curve.y[index] as number;
      const at = curve.x[index] as number;
      const isFar = Math.abs(this.chart.valToPos(at, "x") - left) >= TOUCHED_PX;
      // Between two evaluations the nearer one is read; a curve that ended long before this place has nothing to say here.
      const isBetween = x >= (curve.x[0] as number) && x <= (curve.x[curve.x.length - 1] as number);
      if (Number.isFinite(value) && (isBetween || !isFar)) readings.push({ at, value, curve, isFar });
    }
    readings.sort((a, b) => b.value - a.value);
    this.drawDots(readings);
    this.options.onRead(readings);
    return readings;
  }

  /** The curve nearest to the pointer is drawn once more on top; nothing is where there is only one. */
  private light(curve: Prepared | null): void {
    if (curve === this.lit || this.curves.length < 2) return;
    this.lit = curve;
    this.chart.redraw(false, false);
  }

  private drawDots(readings: readonly Reading[]): void {
    const ratio = devicePixelRatio;
    const { width, height } = this.chart.over.getBoundingClientRect();
    const size = [Math.round(width * ratio), Math.round(height * ratio)] as const;
    if (this.dots.width !== size[0] || this.dots.height !== size[1]) [this.dots.width, this.dots.height] = size;
    this.dots.style.width = `${width}px`;
    this.dots.style.height = `${height}px`;
    const context = this.dots.getContext("2d");
    if (!context) return;
    context.clearRect(0, 0, ...size);
    for (const { at, value, curve } of readings.slice(0, 60)) {
      context.beginPath();
      context.arc(this.chart.valToPos(at, "x") * ratio, this.chart.valToPos(value, "y") * ratio, 3 * ratio, 0, 7);
      context.fillStyle = this.colour(curve);
      context.fill();
    }
  }

  private zoomTo(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 6) return;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.options.onZoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
  }

  /** With Ctrl (as a pinch sends it) or Shift: a plain wheel scrolls the page. Several turns may come before one drawing. */
  private onWheel(event: WheelEvent): void {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const [first, last] = extent(this.curves);
    const [min, max] = this.zoom ?? [first, last];
    const centre = this.chart.posToVal(event.offsetX, "x");
    const factor = WHEEL ** (event.deltaY || event.deltaX);
    const from = Math.max(first, centre - (centre - min) * factor);
    const to = Math.min(last, centre + (max - centre) * factor);
    this.options.onZoom((this.zoom = from <= first && to >= last ? null : [from, to]));
  }
}
