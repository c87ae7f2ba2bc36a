/* What the pictures of a sweep share: their size on the page, colours of results, the trial that is pointed at. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import type { Axis } from "./axes";
import type { Trial } from "./types";

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The trial that is pointed at in any picture or row, in all of them. */
export interface Pointed {
  trial: Signal<number | null>;
  choose: (trial: number) => void;
}

export function Sized(props: { height: number; label: string; children: (width: number) => ComponentChildren }): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const measure = (): void => void (width.value = Math.floor(element.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <div class="picture" ref={frame} style={{ height: `${props.height}px` }} role="img" aria-label={props.label}>
      {width.value > 0 && props.children(width.value)}
    </div>
  );
}

/** From the colour of the worst result to that of the best. */
export const meritColour = (share: number): string =>
  `color-mix(in oklab, var(--scale-high) ${Math.round(share * 100)}%, var(--scale-low))`;

export function BottomAxis(props: { axis: Axis; box: Box; grid?: boolean }): JSX.Element {
  const { axis, box } = props;
  return (
    <g class="axis">
      {props.grid !== false &&
        axis.ticks.map((tick) => {
          const x = box.left + tick.at * box.width;
          return <line key={tick.at} x1={x} x2={x} y1={box.top} y2={box.top + box.height} />;
        })}
      {thinned(axis.ticks, box.width / 34).map((tick) => (
        <text key={tick.at} x={box.left + tick.at * box.width} y={box.top + box.height + 15} text-anchor="middle">
          {tick.label}
        </text>
      ))}
    </g>
  );
}

export function LeftAxis(props: { axis: Axis; box: Box; grid?: boolean }): JSX.Element {
  const { axis, box } = props;
  return (
    <g class="axis">
      {axis.ticks.map((tick) => {
        const y = box.top + (1 - tick.at) * box.height;
        return (
          <g key={tick.at}>
            {props.grid !== false && <line x1={box.left} x2={box.left + box.width} y1={y} y2={y} />}
            <text x={box.left - 7} y={y + 3.5} text-anchor="end">
              {tick.label}
            </text>
          </g>
        );
      })}
    </g>
  );
}

const thinned = <T,>(items: readonly T[], most: number): T[] => items.filter((_, index) => index % Math.max(1, Math.ceil(items.length / most)) === 0);

/** One trial as a point: hollow until it is decided, a cross where it was pruned or has failed. */
export function Mark(props: { trial: Trial; x: number; y: number; colour: string; at: Pointed; best?: boolean }): JSX.Element {
  const { trial, x, y, at } = props;
  const isAt = at.trial.value === trial.number;
  const events = {
    onPointerEnter: () => void (at.trial.value = trial.number),
    onPointerLeave: () => void (at.trial.value = null),
    onClick: () => at.choose(trial.number),
  };
  return (
    <g class={`mark ${isAt ? "at" : ""}`} {...events}>
      <circle cx={x} cy={y} r={10} fill="transparent" />
      {trial.state === "PRUNED" || trial.state === "FAILED" ? (
        <path class="cross" d={`M${x - 3} ${y - 3}l6 6m0-6l-6 6`} stroke={trial.state === "FAILED" ? "var(--bad)" : "var(--faint)"} stroke-width={isAt ? 2.5 : 1.5} />
      ) : (
        <circle cx={x} cy={y} r={isAt ? 6 : 4} {...(trial.state === "RUNNING" ? { class: "undecided", stroke: props.colour } : { class: "ended", fill: props.colour })} />
      )}
      {props.best && (
        <>
          <circle cx={x} cy={y} r={8} class="halo" />
          <circle cx={x} cy={y} r={8} class="best" />
        </>
      )}
    </g>
  );
}
