/* Trials as rows, and one of them in full. */
import type { JSX } from "preact";

import { href, param, setParams } from "../../router";
import { measured } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { settingAxis } from "./axes";
import type { Pointed } from "./plot";
import { SweepState } from "./state";
import { type SweepDocument, type Trial, trialState } from "./types";

interface Column {
  name: string;
  title: string;
  isNumber: boolean;
  value: (trial: Trial) => number | string | null;
  cell: (trial: Trial) => JSX.Element | string;
}

export function Trials(props: { sweep: SweepDocument; at: Pointed; chosen: number | null; pruned: boolean }): JSX.Element {
  const { sweep, at, chosen } = props;
  const columns = columnsOf(sweep);
  const order = param("sort") || "trial";
  const descending = order.startsWith("-");
  const by = columns.find((column) => column.name === order.replace(/^-/, "")) ?? columns[0];
  const rows = sweep.trials.filter((trial) => props.pruned || trial.state !== "PRUNED");
  if (by) rows.sort((one, other) => compare(by.value(one), by.value(other), descending));
  if (rows.length === 0) return <p class="inside soft">The first trial is being chosen.</p>;
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Trials">
      <table class="plain trials">
        <thead>
          <tr>
            {columns.map((column) => {
              const isBy = column === by;
              return (
                <th key={column.name} class={column.isNumber ? "number" : ""} aria-sort={isBy ? (descending ? "descending" : "ascending") : undefined}>
                  <button type="button" class="sorter" onClick={() => setParams({ sort: isBy && !descending ? `-${column.name}` : column.name === "trial" ? "" : column.name })}>
                    {column.title}
                    {isBy && <Icon name={descending ? "down" : "up"} size={12} />}
                  </button>
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {rows.map((trial) => (
            <tr
              key={trial.number}
              class={`${trial.number === chosen ? "chosen" : ""} ${at.trial.value === trial.number ? "at" : ""} ${trial.state === "PRUNED" ? "soft" : ""}`}
              onPointerEnter={() => (at.trial.value = trial.number)}
              onPointerLeave={() => (at.trial.value = null)}
              onClick={() => at.choose(trial.number)}
            >
              {columns.map((column) => (
                <td key={column.name} class={column.isNumber ? "number" : ""}>
                  {column.cell(trial)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function columnsOf(sweep: SweepDocument): Column[] {
  const settings = Object.entries(sweep.space).map(([path, dimension]): Column => {
    const axis = settingAxis(path, dimension);
    return {
      name: path,
      title: path.split(".").at(-1) ?? path,
      isNumber: dimension.choices === undefined || dimension.choices.every((choice) => typeof choice === "number"),
      value: (trial) => {
        const value = trial.params[path];
        return typeof value === "number" ? value : value === undefined ? null : JSON.stringify(value);
      },
      cell: (trial) => axis.text(trial.params[path]) || "–",
    };
  });
  return [
    {
      name: "trial",
      title: "Trial",
      isNumber: true,
      value: (trial) => trial.number,
      cell: (trial) => (
        <button type="button" class="link" aria-label={`Trial ${trial.number}`}>
          {trial.number}
          {trial.number === sweep.best ? " ★" : ""}
        </button>
      ),
    },
    { name: "state", title: "State", isNumber: false, value: trialState, cell: (trial) => <SweepState state={trialState(trial)} why={trial.message} /> },
    { name: "epoch", title: "Epoch", isNumber: true, value: (trial) => trial.epoch, cell: (trial) => `${trial.epoch} of ${sweep.epochs}` },
    { name: "value", title: sweep.metric, isNumber: true, value: (trial) => trial.value, cell: (trial) => measured(trial.value) },
    { name: "bound", title: "Bound", isNumber: true, value: (trial) => trial.bound, cell: (trial) => measured(trial.bound) },
    ...settings,
  ];
}

/** What is missing comes last, whatever the order. */
function compare(one: number | string | null, other: number | string | null, descending: boolean): number {
  if (one === null || other === null) return one === other ? 0 : one === null ? 1 : -1;
  return (one < other ? -1 : one > other ? 1 : 0) * (descending ? -1 : 1);
}

export function ChosenTrial({ sweep, trial }: { sweep: SweepDocument; trial: Trial }): JSX.Element {
  const epochs = Object.keys(trial.results).sort((one, other) => Number(one) - Number(other));
  const [run] = trial.runs;
  return (
    <section class="panel wide chosen-trial" aria-label={`Trial ${trial.number}`}>
      <header>
        <h2>Trial {trial.number}</h2>
        <SweepState state={trialState(trial)} why={trial.message} />
        {trial.number === sweep.best && <span class="chip tone-good">best</span>}
        {trial.message && <span class="faint">{trial.message}</span>}
        <div class="actions">
          {run && (
            <a class="button quiet" href={href(["new"], { from: run })}>
              <Icon name="copy" /> New experiment from it
            </a>
          )}
          <button type="button" class="button quiet icon" aria-label="Close" title="Close (Esc)" onClick={() => setParams({ trial: "" })}>
            <Icon name="close" />
          </button>
        </div>
      </header>
      <div class="inside columns">
        <dl class="facts">
          {Object.entries(trial.params).flatMap(([path, value]) => [
            <dt key={path} class="mono">
              {path}
            </dt>,
            <dd key={`${path} value`} class="mono">
              {settingAxis(path, sweep.space[path] ?? {}).text(value)}
            </dd>,
          ])}
        </dl>
        <table class="plain">
          <thead>
            <tr>
              <th>Seed</th>
              {epochs.map((epoch) => (
                <th key={epoch} class="number">
                  epoch {epoch}
                </th>
              ))}
              <th>Run</th>
            </tr>
          </thead>
          <tbody>
            {[...sweep.seeds].sort((one, other) => one - other).map((seed, index) => (
              <tr key={seed}>
                <td>{seed}</td>
                {epochs.map((epoch) => (
                  <td key={epoch} class="number">
                    {measured(trial.results[epoch]?.[String(seed)] ?? null)}
                  </td>
                ))}
                <td>{trial.runs[index] ? <a href={href(["runs", trial.runs[index]])}>{trial.runs[index].slice(-4)}</a> : "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
