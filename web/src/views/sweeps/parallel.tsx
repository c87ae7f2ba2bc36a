/* Parallel coordinates: one axis for each setting, the result as the last, one line for each trial. */
import type { JSX } from "preact";

import { merit, resultAxis, settingAxis, type Axis } from "./axes";
import { meritColour, Sized, type Pointed } from "./plot";
import type { SweepDocument, Trial } from "./types";

const HEIGHT = 330;
const TOP = 42;
const BOTTOM = 22;
const NARROWEST = 118; // an axis with its labels; below that the picture scrolls

export function Parallel(props: { sweep: SweepDocument; at: Pointed; pruned: boolean }): JSX.Element {
  const { sweep, at } = props;
  const settings = Object.entries(sweep.space).map(([path, dimension]) => settingAxis(path, dimension));
  const result = resultAxis(sweep);
  const axes = [...settings, result];
  const share = merit(sweep);
  const shown = sweep.trials
    .filter((trial) => trial.value !== null && (props.pruned || trial.state !== "PRUNED"))
    .sort((one, other) => share(one.value) - share(other.value)); // the best are drawn above the others
  const height = HEIGHT - TOP - BOTTOM;
  return (
    <Sized height={HEIGHT} label={`${shown.length} trials over ${settings.length} settings and their result`}>
      {(outer) => {
        const width = Math.max(outer, axes.length * NARROWEST);
        const gap = (width - NARROWEST) / Math.max(1, axes.length - 1);
        const x = (index: number): number => NARROWEST / 2 + index * gap;
        return (
          <div class="scroll-x" tabIndex={width > outer ? 0 : -1}>
            <svg width={width} height={HEIGHT} aria-hidden="true">
              {shown.map((trial) => (
                <Line key={trial.number} trial={trial} d={line(trial, settings, result, x, height)} colour={meritColour(share(trial.value))} at={at} />
              ))}
              {axes.map((axis, index) => (
                <Upright key={axis.name} axis={axis} x={x(index)} height={height} isResult={index === axes.length - 1} />
              ))}
            </svg>
          </div>
        );
      }}
    </Sized>
  );
}

function line(trial: Trial, settings: readonly Axis[], result: Axis, x: (index: number) => number, height: number): string {
  const places = [...settings.map((axis) => axis.at(trial.params[axis.name])), result.at(trial.value)];
  let d = "";
  let before: [number, number] | null = null;
  places.forEach((place, index) => {
    if (place === null) return; // a setting that this trial does not have
    const here: [number, number] = [x(index), TOP + (1 - place) * height];
    const middle = before === null ? 0 : (before[0] + here[0]) / 2;
    d += before === null ? `M${here[0]} ${here[1]}` : `C${middle} ${before[1]} ${middle} ${here[1]} ${here[0]} ${here[1]}`;
    before = here;
  });
  return d;
}

function Line(props: { trial: Trial; d: string; colour: string; at: Pointed }): JSX.Element {
  const { trial, at } = props;
  const is = at.trial.value === trial.number;
  const dimmed = at.trial.value !== null && !is;
  const events = {
    onPointerEnter: () => void (at.trial.value = trial.number),
    onPointerLeave: () => void (at.trial.value = null),
    onClick: () => at.choose(trial.number),
  };
  return (
    <g class={`trial-line ${is ? "at" : ""} ${dimmed ? "dimmed" : ""} ${trial.state === "PRUNED" ? "pruned" : ""}`} {...events}>
      <path d={props.d} stroke={props.colour} />
      <path d={props.d} class="reach" />
    </g>
  );
}

function Upright(props: { axis: Axis; x: number; height: number; isResult: boolean }): JSX.Element {
  const { axis, x, height } = props;
  const [section, ...rest] = axis.name.split(/[./](?=[^./]*$)/);
  return (
    <g class={`axis upright ${props.isResult ? "result" : ""}`}>
      <line x1={x} x2={x} y1={TOP} y2={TOP + height} />
      <text x={x} y={14} text-anchor="middle">
        {rest.length > 0 ? section : ""}
      </text>
      <text x={x} y={29} text-anchor="middle" class="name">
        {rest[0] ?? section}
      </text>
      {axis.ticks.map((tick) => (
        <g key={tick.at}>
          <line x1={x - 3} x2={x + 3} y1={TOP + (1 - tick.at) * height} y2={TOP + (1 - tick.at) * height} />
          <text x={x - 7} y={TOP + (1 - tick.at) * height + 3.5} text-anchor="end">
            {tick.label}
          </text>
        </g>
      ))}
    </g>
  );
}
