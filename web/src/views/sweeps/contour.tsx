/* Two settings and the result as a landscape between the trials: where else it may be worth looking. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { theme } from "../../theme";
import { field, merit, settingAxis } from "./axes";
import { BottomAxis, LeftAxis, Mark, meritColour, Sized, type Box, type Pointed } from "./plot";
import type { SweepDocument, Trial } from "./types";

const HEIGHT = 330;
const BANDS = 8;
const FEWEST = 4;
const COLUMNS = 360;
const ROWS = 200;

interface Placed {
  trial: Trial;
  x: number;
  y: number;
  share: number;
}

export function Contour(props: { sweep: SweepDocument; at: Pointed; x: string; y: string }): JSX.Element {
  const { sweep, at } = props;
  const [across, up] = [settingAxis(props.x, sweep.space[props.x] ?? {}), settingAxis(props.y, sweep.space[props.y] ?? {})];
  const share = merit(sweep);
  const placed = sweep.trials.flatMap((trial): Placed[] => {
    const x = across.at(trial.params[props.x]);
    const y = up.at(trial.params[props.y]);
    return x === null || y === null || trial.value === null ? [] : [{ trial, x, y, share: share(trial.value) }];
  });
  if (placed.length < FEWEST) return <p class="help">A landscape is drawn once four trials have a result.</p>;
  return (
    <Sized height={HEIGHT} label={`${sweep.metric} over ${props.x} and ${props.y}`}>
      {(width) => {
        const box: Box = { left: 52, top: 8, width: width - 64, height: HEIGHT - 34 };
        return (
          <>
            <Landscape placed={placed} box={box} />
            <svg width={width} height={HEIGHT} aria-hidden="true" class="above">
              <LeftAxis axis={up} box={box} grid={false} />
              <BottomAxis axis={across} box={box} grid={false} />
              {placed.map(({ trial, x, y, share: merits }) => (
                <Mark key={trial.number} trial={trial} x={box.left + x * box.width} y={box.top + (1 - y) * box.height} colour={meritColour(merits)} at={at} best={trial.number === sweep.best} />
              ))}
            </svg>
          </>
        );
      }}
    </Sized>
  );
}

function Landscape(props: { placed: readonly Placed[]; box: Box }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { box, placed } = props;
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const grid = field(placed.map(({ x, y, share }) => [x, y, share] as const), COLUMNS, ROWS);
    const colours = Array.from({ length: BANDS }, (_, band) => resolvedColour(element, (band + 0.5) / BANDS));
    context.clearRect(0, 0, COLUMNS, ROWS);
    for (let row = 0; row < ROWS; row++) {
      for (let column = 0; column < COLUMNS; column++) {
        const band = Math.min(BANDS - 1, Math.floor((grid[row * COLUMNS + column] ?? 0) * BANDS));
        context.fillStyle = colours[band] ?? "";
        context.fillRect(column, ROWS - 1 - row, 1, 1);
      }
    }
  }, [placed.map(({ trial, share }) => `${trial.number}:${share}`).join(), box.width, theme.value]);
  const style = { left: `${box.left}px`, top: `${box.top}px`, width: `${box.width}px`, height: `${box.height}px` };
  return <canvas ref={canvas} width={COLUMNS} height={ROWS} style={style} class="landscape" />;
}

/** A canvas cannot read variables of a style sheet; the browser works the colour out on an element. */
function resolvedColour(element: HTMLElement, share: number): string {
  const probe = document.createElement("span");
  probe.style.color = meritColour(share);
  element.parentElement?.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
