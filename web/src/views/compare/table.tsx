/* What each group earned: numbers as `rlctl compare` prints them, and where its runs ended as dots on one scale. */
import type { JSX } from "preact";

import { colourOf } from "../../chart/curve";
import { href } from "../../router";
import { Button } from "../../ui/button";
import { measured } from "../../ui/format";
import type { Comparison, Estimate, GroupResult } from "./types";

/** A longer name would make the column wider than its numbers need. */
const LONGEST_NAME = 18;

interface TableProps {
  comparison: Comparison;
  onFirst: (group: GroupResult) => void;
  onRemove: (group: GroupResult) => void;
}

export function Table({ comparison, onFirst, onRemove }: TableProps): JSX.Element {
  const { groups } = comparison;
  const scale = scaleOf(groups);
  const [first] = groups;
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Statistics of the groups">
      <table class="plain statistics">
        <thead>
          <tr>
            <th>Group</th>
            <th class="number">Runs</th>
            <th class="number">IQM</th>
            <th>95 % interval</th>
            <th class="wide">Last value of each run</th>
            <th class="number">Mean</th>
            <th>95 % interval</th>
            <th title={first && `How probably a run of the group ends above one of ${first.name}`}>P(better than {first && first.name.length <= LONGEST_NAME ? first.name : "the first"})</th>
            <th>
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group, index) => (
            <tr key={group.name}>
              <th scope="row">
                <i class="dot" style={{ "--dot": colourOf(index + 1) }} />
                <a href={href(["runs"], { q: group.name })}>{group.name}</a>
              </th>
              <td class="number">{group.n}</td>
              <td class="number strong">{measured(group.iqm?.value)}</td>
              <td class="soft">{interval(group.iqm)}</td>
              <td class="wide">
                <Strip group={group} scale={scale} colour={colourOf(index + 1)} />
              </td>
              <td class="number">{measured(group.mean?.value)}</td>
              <td class="soft">{interval(group.mean)}</td>
              <td>{index === 0 ? <span class="faint">the reference</span> : <Probability estimate={group.improvement} />}</td>
              <td class="actions">
                {index > 0 && <Button kind="quiet" icon="up" label={`Compare with ${group.name}`} onClick={() => onFirst(group)} />}
                <Button kind="quiet" icon="close" label={`Leave ${group.name} out`} onClick={() => onRemove(group)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** One run has no interval. */
const interval = (estimate: Estimate | null): string => (estimate?.low == null || estimate.high === null ? "–" : `${measured(estimate.low)} to ${measured(estimate.high)}`);

type Scale = (value: number) => number;

function scaleOf(groups: readonly GroupResult[]): Scale {
  const values = groups.flatMap((group) => [...group.runs.map((run) => run.value), group.iqm?.low, group.iqm?.high]).filter((value) => typeof value === "number");
  const low = Math.min(...values);
  const length = Math.max(...values) - low;
  return (value) => length === 0 ? 50 : 2 + ((value - low) / length) * 96;
}

/** The runs as dots, the interval of their IQM as a bar. */
function Strip({ group, scale, colour }: { group: GroupResult; scale: Scale; colour: string }): JSX.Element {
  const { iqm } = group;
  return (
    <span class="strip" style={{ "--dot": colour }} role="group" aria-label={`Where the runs of ${group.name} ended`}>
      {iqm?.low != null && iqm.high !== null && <i class="range" style={{ left: `${scale(iqm.low)}%`, width: `${scale(iqm.high) - scale(iqm.low)}%` }} />}
      {group.runs.map((run) => (
        <a key={run.id} class="end" href={href(["runs", run.id])} aria-label={`seed ${run.seed}: ${measured(run.value)}`} title={`seed ${run.seed}: ${measured(run.value)}`} style={{ left: `${scale(run.value)}%` }} />
      ))}
      {iqm?.value != null && <i class="middle" style={{ left: `${scale(iqm.value)}%` }} />}
    </span>
  );
}

function Probability({ estimate }: { estimate: Estimate | null }): JSX.Element {
  if (estimate?.value == null) return <span class="faint">–</span>;
  const { value, low, high } = estimate;
  const tone = low !== null && low > 0.5 ? "good" : high !== null && high < 0.5 ? "bad" : "idle";
  return (
    <span class={`probability tone-${tone}`}>
      <b>{value.toFixed(2)}</b>
      <span class="meter" aria-hidden="true">
        {low !== null && high !== null && <i class="range" style={{ left: `${low * 100}%`, width: `${(high - low) * 100}%` }} />}
        <i class="middle" style={{ left: `${value * 100}%` }} />
      </span>
      {low !== null && high !== null && (
        <span class="faint">
          {low.toFixed(2)} to {high.toFixed(2)}
        </span>
      )}
    </span>
  );
}
