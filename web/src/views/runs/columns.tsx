import type { Run } from "../../api/types";
import { href } from "../../router";
import { ago, count, measured, number, short } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { Sparkline } from "../../ui/sparkline";
import { progressOf, State, stateTone, stateWord } from "../../ui/state";
import type { Column } from "../../ui/table";
import { drawnOf, type Group, mean, type Row, tally } from "./filter";
import { sparkOf } from "./store";

interface Cell {
  run: (run: Run) => preact.ComponentChildren;
  group?: (group: Group) => preact.ComponentChildren;
}

const column = (name: string, title: string, width: string, cell: Cell, more: Partial<Column<Row>> = {}): Column<Row> => ({
  name,
  title,
  width,
  sortable: true,
  cell: (row) => (row.kind === "run" ? cell.run(row.run) : (cell.group?.(row.group) ?? null)),
  ...more,
});

const same = (group: Group, of: (run: Run) => string): string => {
  const values = new Set(group.runs.map(of));
  return values.size === 1 ? [...values].join() : `${values.size} different`;
};

/** Every column; the address says which are left out. `toggle` opens and closes a group. */
export function columnsOf(toggle: (key: string) => void): Column<Row>[] {
  const runName = (row: Row): preact.ComponentChildren =>
    row.kind === "run" ? (
      <span style={row.below ? "padding-left:22px" : ""}>
        <RunName run={row.run} below={row.below} /> {row.run.note && <NoteMark note={row.run.note} />} {tags(row.run)}
      </span>
    ) : (
      <button type="button" class="group-name" aria-expanded={row.open} onClick={() => toggle(row.group.key)}>
        <Icon name={row.open ? "down" : "right"} size={13} />
        <span class="cut">{row.group.key}</span> <span class="faint">× {row.group.runs.length}</span>
      </button>
    );
  return [
    { name: "name", title: "Name", width: "minmax(164px, 2.4fr)", sortable: true, cell: runName },
    column("state", "State", "98px", { run: (run) => <State run={run} />, group: groupStates }),
    column("curve", "Curve", "100px", { run: (run) => <Sparkline curves={[sparkOf(run)]} />, group: (group) => <Sparkline curves={drawnOf(group).map(sparkOf)} /> }, { sortable: false }),
    column("eval", "Evaluation", "118px", { run: evaluation, group: meanEvaluation }, { right: true }),
    column("train", "Return", "66px", { run: (run) => measured(run.train_return), group: (group) => measured(mean(group.runs.map((run) => run.train_return))) }, { right: true }),
    column("steps", "Steps", "60px", { run: (run) => <span title={count(run.env_steps)}>{short(run.env_steps)}</span>, group: (group) => short(group.runs.reduce((sum, run) => sum + run.env_steps, 0)) }, { right: true }),
    column("progress", "Progress", "68px", { run: (run) => progress([run]), group: (group) => progress(group.runs) }),
    column("algo", "Algo", "52px", { run: (run) => run.algo, group: (group) => same(group, (run) => run.algo) }),
    column("env", "Environment", "minmax(120px, 1fr)", { run: (run) => run.env_id, group: (group) => same(group, (run) => run.env_id) }),
    column("seed", "Seed", "48px", { run: (run) => run.seed }, { right: true }),
    column("updated", "Updated", "88px", { run: (run) => <span title={run.updated_at}>{ago(run.updated_at)}</span>, group: (group) => ago(group.runs.reduce((newest, run) => (run.updated_at > newest ? run.updated_at : newest), "")) }),
    column("created", "Created", "88px", { run: (run) => <span title={run.created_at}>{ago(run.created_at)}</span> }),
    column("note", "Note", "minmax(120px, 1.2fr)", { run: (run) => <span title={run.note}>{run.note}</span> }, { sortable: false }),
  ];
}

/** Below a heading that says the name, the handle tells runs apart. */
function RunName({ run, below }: { run: Run; below: string }) {
  const place = href(["runs", run.id]);
  if (run.name === below)
    return (
      <a class="name mono" href={place} title={run.name}>
        {run.handle}
      </a>
    );
  return (
    <>
      <a class="name" href={place}>
        {run.name}
      </a>{" "}
      <span class="faint mono">{run.handle}</span>
    </>
  );
}

/** Columns that are left out until somebody asks for them: `?show=note`. */
export const OPTIONAL = ["created", "note"];

function NoteMark({ note }: { note: string }) {
  return (
    <span class="note-mark" title={note}>
      <Icon name="note" size={13} />
      <span class="visually-hidden">{note}</span>
    </span>
  );
}

/** How many of a group are in which state: the state that all share, or a bar in proportion with the numbers in words. */
function groupStates(group: Group) {
  const [first] = group.runs;
  if (first && group.runs.every((run) => stateWord(run) === stateWord(first))) return <State run={first} />;
  const counts = tally(group.runs, (run) => [stateWord(run)]);
  const tones = new Map(group.runs.map((run) => [stateWord(run), stateTone(run)]));
  const words = counts.map(([word, n]) => `${n} ${word}`).join(", ");
  return (
    <span class="shares" title={words}>
      {counts.map(([word, n]) => (
        <i key={word} class={`tone-${tones.get(word)}`} style={{ flexGrow: n }} />
      ))}
      <span class="visually-hidden">{words}</span>
    </span>
  );
}

function progress(runs: readonly Run[]) {
  const [done, all] = [runs.reduce((sum, run) => sum + run.epoch, 0), runs.reduce((sum, run) => sum + run.total_epochs, 0)];
  const share = mean(runs.map(progressOf)) ?? 0;
  return (
    <span class="progress" title={`${runs.length > 1 ? "in all, " : ""}epoch ${done} of ${all}`}>
      <i style={{ width: `${share * 100}%` }} />
      <span class="visually-hidden">{Math.round(share * 100)} %</span>
    </span>
  );
}

function evaluation(run: Run) {
  if (run.eval_return === null) return <span class="faint">–</span>;
  const half = run.eval_interval ? (run.eval_interval[1] - run.eval_interval[0]) / 2 : null;
  return (
    <span title={run.eval_interval ? `95 % interval ${measured(run.eval_interval[0])} to ${measured(run.eval_interval[1])}` : undefined}>
      <b>{measured(run.eval_return)}</b> <span class="half faint">{half !== null && `± ${number(half, 2)}`}</span>
    </span>
  );
}

const meanEvaluation = (group: Group) => (
  <>
    <b title="Mean over the runs">{measured(mean(group.runs.map((run) => run.eval_return)))}</b> <span class="half" />
  </>
);

const tags = (run: Run) => run.tags.map((tag) => <span class="chip" key={tag} style="margin-left:4px">{tag}</span>);

/** A run on a narrow screen: two lines. */
export function narrowRow(row: Row, toggle: (key: string) => void) {
  if (row.kind === "group")
    return (
      <>
        <div class="toolbar" style="flex-wrap:nowrap">
          <button type="button" class="group-name grow" aria-expanded={row.open} onClick={() => toggle(row.group.key)}>
            <Icon name={row.open ? "down" : "right"} size={13} />
            <span class="cut">{row.group.key}</span> <span class="faint">× {row.group.runs.length}</span>
          </button>
          <b>{measured(mean(row.group.runs.map((run) => run.eval_return)))}</b>
        </div>
        <div class="toolbar soft" style="flex-wrap:nowrap; font-size:var(--size-s)">
          <span class="grow cut">
            {same(row.group, (run) => run.algo)} · {same(row.group, (run) => run.env_id)}
          </span>
          <span style="width:88px; text-align:right">{groupStates(row.group)}</span>
        </div>
      </>
    );
  const { run } = row;
  return (
    <>
      <div class="toolbar" style="flex-wrap:nowrap">
        <span class="grow cut">
          <a class="name" href={href(["runs", run.id])}>
            {run.name}
          </a>{" "}
          <span class="faint mono">{run.handle}</span>
        </span>
        <State run={run} />
      </div>
      <div class="toolbar soft" style="flex-wrap:nowrap; font-size:var(--size-s)">
        <span class="grow cut">
          {run.algo} · {run.env_id} · {short(run.env_steps)} steps
        </span>
        {evaluation(run)}
      </div>
    </>
  );
}
