/* One setting against the result, for each setting. */
import type { JSX } from "preact";

import { merit, resultAxis, settingAxis } from "./axes";
import { BottomAxis, LeftAxis, Mark, meritColour, Sized, type Box, type Pointed } from "./plot";
import type { SweepDocument } from "./types";

const HEIGHT = 190;

export function Slices(props: { sweep: SweepDocument; at: Pointed; pruned: boolean }): JSX.Element {
  return (
    <div class="slices">
      {Object.keys(props.sweep.space).map((path) => (
        <figure key={path}>
          <figcaption class="mono">{path}</figcaption>
          <Slice {...props} path={path} />
        </figure>
      ))}
    </div>
  );
}

function Slice(props: { sweep: SweepDocument; at: Pointed; pruned: boolean; path: string }): JSX.Element {
  const { sweep, at, path } = props;
  const axis = settingAxis(path, sweep.space[path] ?? {});
  const result = resultAxis(sweep);
  const share = merit(sweep);
  return (
    <Sized height={HEIGHT} label={`${sweep.metric} by ${path}`}>
      {(width) => {
        const box: Box = { left: 40, top: 8, width: width - 52, height: HEIGHT - 34 };
        return (
          <svg width={width} height={HEIGHT} aria-hidden="true">
            <LeftAxis axis={result} box={box} />
            <BottomAxis axis={axis} box={box} />
            {sweep.trials.map((trial) => {
              const place = axis.at(trial.params[path]);
              const height = result.at(trial.value);
              if (place === null || height === null || (!props.pruned && trial.state === "PRUNED")) return null;
              const [x, y] = [box.left + place * box.width, box.top + (1 - height) * box.height];
              return <Mark key={trial.number} trial={trial} x={x} y={y} colour={meritColour(share(trial.value))} at={at} best={trial.number === sweep.best} />;
            })}
          </svg>
        );
      }}
    </Sized>
  );
}
