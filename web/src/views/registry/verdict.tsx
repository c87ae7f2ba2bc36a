/* Every number that a promotion rests on: both sides, each look at the difference, each gate. */
import type { JSX } from "preact";

import { measured, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import type { Summary, Verdict } from "./types";

export function VerdictView({ verdict }: { verdict: Verdict }): JSX.Element {
  const gates = Object.entries(verdict.gates);
  return (
    <div class="verdict">
      <p class={`state tone-${verdict.promote ? "good" : "bad"} headline`}>
        {verdict.promote ? "Promoted" : "Refused"}: {verdict.reason}
      </p>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Returns of both sides">
        <table class="plain">
          <thead>
            <tr>
              <th>Side</th>
              <th class="number">Mean return</th>
              <th>95 % interval</th>
              <th class="number">Spread</th>
            </tr>
          </thead>
          <tbody>
            <Side name="candidate" summary={verdict.candidate} />
            {verdict.incumbent !== null && <Side name="in production" summary={verdict.incumbent} />}
          </tbody>
        </table>
      </div>
      {verdict.looks.length > 0 && <Looks verdict={verdict} />}
      {gates.length > 0 && (
        <ul class="gates" aria-label="Gates">
          {gates.map(([name, gate]) => {
            const isMet = gate.found >= gate.wanted;
            return (
              <li key={name} class={`tone-${isMet ? "good" : "bad"}`}>
                <Icon name={isMet ? "check" : "close"} size={14} /> <code>{name}</code> {number(Math.abs(gate.found))}, wanted {number(Math.abs(gate.wanted))}
              </li>
            );
          })}
        </ul>
      )}
      <p class="faint">
        {verdict.episodes} episodes {verdict.incumbent === null ? "were played" : "of each side were played"}. Asked for a margin of {number(verdict.settings["margin"] ?? 0)} at an error rate of {number(verdict.settings["alpha"] ?? null)}, at most {number(verdict.settings["budget"] ?? null)} episodes of each side; seed {verdict.seed}.
      </p>
    </div>
  );
}

function Side({ name, summary }: { name: string; summary: Summary }): JSX.Element {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td class="number">{measured(summary.mean)}</td>
      <td class="soft">
        {measured(summary.ci_low)} to {measured(summary.ci_high)}
      </td>
      <td class="number">{measured(summary.std)}</td>
    </tr>
  );
}

/** The mean difference with its bounds at each look, on one scale with the margin: right of it is better. */
function Looks({ verdict }: { verdict: Verdict }): JSX.Element {
  const margin = verdict.settings["margin"] ?? 0;
  const ends = [margin, ...verdict.looks.flatMap((look) => [look.lower, look.upper])].filter(Number.isFinite);
  const low = Math.min(...ends);
  const length = Math.max(...ends) - low || 1;
  const place = (value: number): number => 4 + ((value - low) / length) * 92;
  return (
    <ol class="looks" aria-label="Looks at the difference between candidate and production">
      {verdict.looks.map((look) => (
        <li key={look.n}>
          <span class="faint">after {look.n} episodes</span>
          <span class="look-scale" aria-hidden="true">
            <i class="margin" style={{ left: `${place(margin)}%` }} />
            <i class="range" style={{ left: `${place(look.lower)}%`, width: `${Math.max(0.6, place(look.upper) - place(look.lower))}%` }} />
            <i class="middle" style={{ left: `${place(look.mean)}%` }} />
          </span>
          <span>
            difference {measured(look.mean)} <span class="faint">[{measured(look.lower)}, {measured(look.upper)}]</span>
          </span>
        </li>
      ))}
    </ol>
  );
}
