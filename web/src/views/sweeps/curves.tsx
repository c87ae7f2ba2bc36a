/* The learning curves of all trials in one picture: the best stands out, pruned ones end early and are dashed. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { query } from "../../api/client";
import { useDocument } from "../../api/document";
import { Chart } from "../../chart/chart";
import type { Curve } from "../../chart/curve";
import { Failed, Loading } from "../../ui/blank";
import type { Curves } from "../compare/types";
import { merit } from "./axes";
import type { Pointed } from "./plot";
import type { SweepDocument, Trial } from "./types";

const MOST = 48;
const POINTS = 160;
const WORDS = { COMPLETED: "completed", RUNNING: "not decided yet", PRUNED: "pruned", FAILED: "failed" } as const;
const COLOURS = { best: 3, COMPLETED: 1, RUNNING: 2, PRUNED: 10, FAILED: 8 } as const;

export function TrialCurves(props: { sweep: SweepDocument; at: Pointed; chosen: number | null; pruned: boolean }): JSX.Element {
  const { sweep, chosen, pruned } = props;
  const pointed = props.at.trial.value ?? chosen;
  const withValue = sweep.trials.filter((trial) => trial.value !== null && (pruned || trial.state !== "PRUNED"));
  const drawn = mostTelling(sweep, withValue);
  const names = drawn.map((trial) => trial.name).join(",");
  const curves = useDocument<Curves>(drawn.length > 0 ? `/curves${query({ runs: names, metric: sweep.metric, points: POINTS })}` : null, ({ topic, data }) => topic === "run" && data["sweep"] === sweep.name);
  const lines = useMemo(() => (curves.data === null ? [] : linesOf(curves.data, sweep, pointed)), [curves.data, sweep, pointed]);
  if (curves.error) return <Failed error={curves.error} retry={curves.reload} />;
  if (drawn.length === 0) return <p class="help">Curves appear with the first evaluation of the first trial.</p>;
  if (curves.data === null) return <Loading what="the curves" />;
  return (
    <>
      <Chart label={`${sweep.metric} of ${drawn.length} trials`} curves={lines} height={260} />
      <p class="trial-key faint">
        {drawn.some((trial) => trial.number === sweep.best) && <Key colour={COLOURS.best} of="best" />}
        {(["COMPLETED", "RUNNING", "PRUNED", "FAILED"] as const).map((state) => drawn.some((trial) => trial.state === state && trial.number !== sweep.best) && <Key key={state} colour={COLOURS[state]} of={WORDS[state]} />)}
        {withValue.length > MOST && <span>the {MOST} most telling of {withValue.length}</span>}
      </p>
    </>
  );
}

const Key = ({ colour, of }: { colour: number; of: string }): JSX.Element => (
  <span>
    <i class="dot" style={{ "--dot": `var(--curve-${colour})` }} /> {of}
  </span>
);

/** Those at work, then the best: a picture of a thousand curves says nothing. */
function mostTelling(sweep: SweepDocument, trials: readonly Trial[]): Trial[] {
  const share = merit(sweep);
  const rank = (trial: Trial): number => (trial.state === "RUNNING" ? 2 : share(trial.value));
  return [...trials]
    .sort((one, other) => rank(other) - rank(one))
    .slice(0, MOST)
    .sort((one, other) => one.number - other.number);
}

function linesOf({ groups }: Curves, sweep: SweepDocument, pointed: number | null): Curve[] {
  const byName = new Map(sweep.trials.map((trial) => [trial.name, trial]));
  const weight = (trial: Trial): number => (trial.number === pointed ? 3 : trial.number === sweep.best ? 2 : trial.state === "PRUNED" ? 0 : 1);
  return groups
    .flatMap((group) => {
      const trial = byName.get(group.name);
      return trial === undefined ? [] : [{ group, trial }];
    })
    .sort((one, other) => weight(one.trial) - weight(other.trial)) // what matters lies above
    .map(({ group, trial }): Curve => {
      const isBest = trial.number === sweep.best;
      return {
        name: `trial ${trial.number}`,
        colour: isBest ? COLOURS.best : COLOURS[trial.state],
        x: group.x,
        y: group.iqm,
        dashed: trial.state === "PRUNED",
        faint: pointed !== null && trial.number !== pointed,
      };
    });
}
