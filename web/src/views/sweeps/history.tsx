/* Every trial's result in the order of their numbers, and the best so far as a line of steps. */
import type { JSX } from "preact";

import { bestSoFar, merit, numberAxis, resultAxis } from "./axes";
import { BottomAxis, LeftAxis, Mark, meritColour, Sized, type Box, type Pointed } from "./plot";
import type { SweepDocument } from "./types";

const HEIGHT = 240;

export function History(props: { sweep: SweepDocument; at: Pointed }): JSX.Element {
  const { sweep, at } = props;
  const share = merit(sweep);
  const result = resultAxis(sweep);
  const last = Math.max(sweep.planned, sweep.trials.length, 2) - 1;
  const order = numberAxis("trial", -0.5, last + 0.5, false);
  order.ticks = order.ticks.filter((tick) => Number.isInteger(Number(tick.label)));
  const steps = bestSoFar(sweep);
  const best = steps.at(-1)?.best;
  const label = best === undefined ? "No trial has completed yet" : `Result of each trial; the best so far is ${result.text(best)}`;
  return (
    <Sized height={HEIGHT} label={label}>
      {(width) => {
        const box: Box = { left: 46, top: 10, width: width - 58, height: HEIGHT - 36 };
        const x = (number: number): number => box.left + (order.at(number) ?? 0) * box.width;
        const y = (value: number): number => box.top + (1 - (result.at(value) ?? 0)) * box.height;
        const path = steps.map(({ trial, best: value }, index) => (index === 0 ? `M${x(trial.number)} ${y(value)}` : `H${x(trial.number)}V${y(value)}`)).join("");
        return (
          <svg width={width} height={HEIGHT} aria-hidden="true">
            <LeftAxis axis={result} box={box} />
            <BottomAxis axis={order} box={box} grid={false} />
            {path && <path d={`${path}H${x(sweep.trials.length - 1)}`} class="best-so-far" />}
            {sweep.trials.map(
              (trial) =>
                trial.value !== null && (
                  <Mark key={trial.number} trial={trial} x={x(trial.number)} y={y(trial.value)} colour={meritColour(share(trial.value))} at={at} best={trial.number === sweep.best} />
                ),
            )}
          </svg>
        );
      }}
    </Sized>
  );
}

export function Importance(props: { sweep: SweepDocument }): JSX.Element {
  const shares = Object.entries(props.sweep.importance);
  if (shares.length === 0) {
    return <p class="help">Shown once four trials have come to the first rung.</p>;
  }
  return (
    <dl class="importance">
      {shares.map(([path, share]) => (
        <div key={path}>
          <dt class="mono cut" title={path}>
            {path}
          </dt>
          <dd>
            <span class="bar" style={{ width: `${Math.max(1, share * 100)}%` }} />
            <span class="number">{share.toFixed(2)}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
