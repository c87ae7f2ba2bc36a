/** All runs: `#/runs?q=..&state=..&env=..&algo=..&tag=..&sort=-eval&group=name&open=..&hide=..&show=..` */
import { useEffect, useMemo } from "preact/hooks";
import { undecided } from "../../api/sweeps";
import type { Run } from "../../api/types";
import { useKeys } from "../../keys";
import { go, href, param, setParams } from "../../router";
import { Blank, Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { count } from "../../ui/format";
import { Heading } from "../../ui/heading";
import { Menu } from "../../ui/menu";
import { stateWord } from "../../ui/state";
import { type Sort, VirtualTable } from "../../ui/table";
import { Bulk, compareRuns, noteRuns, stopRuns, tagRuns } from "./bulk";
import { columnsOf, narrowRow, OPTIONAL } from "./columns";
import { drawnOf, type Filter, filtered, grouped, list, type Row, sorted, tally } from "./filter";
import { chosen, positionOfTable } from "./left";
import { SavedViews } from "./saved";
import { allRuns, failure, keepRuns, reload, sparkVersion, total, wantSparks } from "./store";
import "./runs.css";

const rowKey = (row: Row): string => (row.kind === "run" ? row.run.id : `group:${row.group.key}`);
const members = (row: Row): string[] => (row.kind === "run" ? [row.run.id] : row.group.runs.map((run) => run.id));

function readSort(): Sort {
  const text = param("sort") || "-created";
  return { name: text.replace(/^-/, ""), descending: text.startsWith("-") };
}

export function RunTable() {
  useEffect(keepRuns, []);
  const position = positionOfTable();
  const runs = allRuns.value;
  void sparkVersion.value;
  const [q, state, env, algo, tag, group, open] = ["q", "state", "env", "algo", "tag", "group", "open"].map(param) as [string, string, string, string, string, string, string];
  const sort = readSort();

  const filter: Filter = useMemo(() => ({ text: q, states: list(state), envs: list(env), algos: list(algo), tags: list(tag) }), [q, state, env, algo, tag]);
  const hits = useMemo(() => sorted(filtered(runs, filter), sort), [runs, filter, sort.name, sort.descending, undecided.value]);
  const rows = useMemo(() => grouped(hits, group, new Set(list(open))), [hits, group, open]);

  const toggle = (key: string): void => {
    const keys = new Set(list(param("open")));
    if (!keys.delete(key)) keys.add(key);
    setParams({ open: [...keys].join(",") });
  };
  const columns = useMemo(() => columnsOf(toggle).filter((column) => isShown(column.name)), [param("hide"), param("show")]);
  const selected = runs.filter((run) => chosen.value.has(run.id));
  const knownTags = useMemo(() => tally(runs, (run) => run.tags).map(([name]) => name), [runs]);

  useKeys("Runs", {
    c: ["Compare the selected runs", () => selected.length && compareRuns(selected)],
    s: ["Stop the selected runs", () => selected.length && void stopRuns(selected)],
    "#": ["Tag the selected runs", () => selected.length && void tagRuns(selected, knownTags)],
    n: ["Note on the selected runs", () => selected.length && void noteRuns(selected)],
    G: ["Group by name", () => setParams({ group: param("group") ? "" : "name" })],
  });

  const running = runs.filter((run) => run.state === "RUNNING").length;
  const known = total.value;
  const onlyFailed = failure.value && !runs.length;
  return (
    <>
      <Heading title="Runs" sub={known === null ? undefined : `${count(known)}${running ? ` · ${running} running` : ""}`}>
        <SavedViews />
        <a class="button primary" href={href(["new"])}>
          New experiment
        </a>
      </Heading>
      <Filters runs={runs} filter={filter} group={group} />
      <Bulk runs={selected} knownTags={knownTags} onClear={() => (chosen.value = new Set())} />
      <div class="fill">
        {onlyFailed && failure.value ? (
          <Failed error={failure.value} retry={reload} />
        ) : known === null ? (
          <Loading what="runs" />
        ) : (
          <VirtualTable<Row>
            label="runs"
            rows={rows}
            position={position}
            rowKey={rowKey}
            columns={columns}
            sort={sort}
            onSort={({ name, descending }) => setParams({ sort: `${descending ? "-" : ""}${name}` })}
            onOpen={(row) => (row.kind === "run" ? go(href(["runs", row.run.id])) : toggle(row.group.key))}
            selected={chosen.value}
            onSelect={(now) => (chosen.value = now)}
            members={members}
            narrow={(row) => narrowRow(row, toggle)}
            rowClass={(row) => (row.kind === "group" ? "heading-row" : "")}
            onVisible={(visible) => wantSparks(visible.flatMap((row) => (row.kind === "run" ? [row.run] : drawnOf(row.group))))}
            empty={<Empty any={runs.length > 0} />}
            foot={<Foot shown={hits.length} loaded={runs.length} all={known} />}
          />
        )}
      </div>
    </>
  );
}

function Foot({ shown, loaded, all }: { shown: number; loaded: number; all: number }) {
  const filteredOut = loaded - shown;
  return (
    <>
      <span>
        {count(shown)} {shown === 1 ? "run" : "runs"}
        {filteredOut > 0 && `, ${count(filteredOut)} more do not match`}
      </span>
      {loaded < all && <span role="status">loading {count(loaded)} of {count(all)} …</span>}
    </>
  );
}

function Empty({ any }: { any: boolean }) {
  if (any)
    return (
      <Blank title="No run matches">
        <Button onClick={() => setParams({ q: "", state: "", env: "", algo: "", tag: "" })}>Clear the filters</Button>
      </Blank>
    );
  return (
    <Blank title="No runs yet">
      <p>Start one here, or from a terminal:</p>
      <pre>rlctl launch -f configs/ppo/quickstart.yaml</pre>
      <a class="button primary" href={href(["new"])}>
        New experiment
      </a>
    </Blank>
  );
}

const isShown = (column: string): boolean => (OPTIONAL.includes(column) ? list(param("show")).includes(column) : !list(param("hide")).includes(column));

/** A column is in the address only where it is not as by default. */
function toggleColumn(column: string): void {
  const name = OPTIONAL.includes(column) ? "show" : "hide";
  const names = list(param(name));
  setParams({ [name]: (names.includes(column) ? names.filter((other) => other !== column) : [...names, column]).join(",") });
}

function Filters({ runs, filter, group }: { runs: readonly Run[]; filter: Filter; group: string }) {
  const set = Boolean(filter.text || filter.states.length || filter.envs.length || filter.algos.length || filter.tags.length);
  return (
    <div class="toolbar runs-bar" role="search">
      <input class="field" type="search" placeholder="Filter by name, tag, note …  ( / )" aria-label="Filter runs" value={filter.text} onInput={(event) => setParams({ q: event.currentTarget.value })} />
      <Choice label="State" name="state" chosen={filter.states} options={tally(runs, (run) => [stateWord(run)])} />
      <Choice label="Environment" name="env" chosen={filter.envs} options={tally(runs, (run) => [run.env_id])} />
      <Choice label="Algorithm" name="algo" chosen={filter.algos} options={tally(runs, (run) => [run.algo])} />
      <Choice label="Tag" name="tag" chosen={filter.tags} options={tally(runs, (run) => run.tags)} />
      {set && (
        <Button kind="quiet" onClick={() => setParams({ q: "", state: "", env: "", algo: "", tag: "" })}>
          Clear
        </Button>
      )}
      <span class="grow" />
      <select class="field" aria-label="Group" value={group} onChange={(event) => setParams({ group: event.currentTarget.value, open: "" })}>
        <option value="">No groups</option>
        <option value="name">Group by name</option>
        <option value="config">Group by config</option>
        <option value="sweep">Group by sweep</option>
      </select>
      <span class="optional">
        <Menu label="Columns" icon="columns" keepOpen>
          {columnsOf(() => undefined).map((column) => (
            <label key={column.name}>
              <input type="checkbox" checked={isShown(column.name)} onChange={() => toggleColumn(column.name)} />
              {column.title}
            </label>
          ))}
        </Menu>
      </span>
    </div>
  );
}

function Choice({ label, name, chosen, options }: { label: string; name: string; chosen: readonly string[]; options: [string, number][] }) {
  // What the address asks for stays visible even if no run has it now.
  const all = [...options, ...chosen.filter((one) => !options.some(([value]) => value === one)).map((one): [string, number] => [one, 0])];
  return (
    <Menu label={label} side="left" keepOpen text={chosen.length ? `${label}: ${chosen.length === 1 ? chosen[0] : chosen.length}` : label}>
      {all.length === 0 && <label class="faint">none yet</label>}
      {all.slice(0, 200).map(([value, n]) => (
        <label key={value}>
          <input type="checkbox" checked={chosen.includes(value)} onChange={() => setParams({ [name]: (chosen.includes(value) ? chosen.filter((one) => one !== value) : [...chosen, value]).join(",") })} />
          <span class="grow">{value}</span>
          <span class="faint">{count(n)}</span>
        </label>
      ))}
    </Menu>
  );
}
