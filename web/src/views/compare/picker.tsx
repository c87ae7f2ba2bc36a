/* Which groups are compared: chips, a search, and where nothing is chosen yet the newest groups. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";

import { query } from "../../api/client";
import { useDocument } from "../../api/document";
import type { Page, Run } from "../../api/types";
import { href } from "../../router";
import { Blank, Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { ago, measured } from "../../ui/format";
import { Icon } from "../../ui/icon";

interface Group {
  name: string;
  algo: string;
  env: string;
  runs: Run[];
  newest: string;
}

const MOST = 12;
const RUN_ID = /^\d{8}-\d+-/; // runs that were chosen one by one are drawn with the group of their name
const SEARCH_MS = 150;

export function Picker({ chosen, onChange }: { chosen: readonly string[]; onChange: (groups: readonly string[]) => void }): JSX.Element {
  const typed = useSignal("");
  const asked = useSignal("");
  useEffect(() => {
    const timer = setTimeout(() => (asked.value = typed.value), SEARCH_MS);
    return () => clearTimeout(timer);
  }, [typed.value]);
  const searching = chosen.length === 0 || typed.value !== "";
  const page = useDocument<Page<Run>>(searching ? `/runs${query({ q: asked.value, limit: 500, sort: "-id" })}` : null);
  const runs = page.data?.items ?? [];
  // Trials are compared by their sweep; here they would hide everything else.
  const offered = typed.value === "" && runs.some((run) => !run.sweep) ? runs.filter((run) => !run.sweep) : runs;
  const groups = groupsOf(offered).filter((group) => !chosen.includes(group.name));
  const add = (name: string): void => {
    typed.value = "";
    asked.value = "";
    onChange([...chosen, name]);
  };
  return (
    <>
      <div class="toolbar">
        {chosen.map((name) => (
          <span class="chip group-chip" key={name}>
            {RUN_ID.test(name) ? (
              <>
                run <span class="mono">{name.slice(-4)}</span>
              </>
            ) : (
              name
            )}
            <button type="button" aria-label={`Leave ${name} out`} onClick={() => onChange(chosen.filter((other) => other !== name))}>
              <Icon name="close" size={12} />
            </button>
          </span>
        ))}
        <input
          type="search"
          class="field group-search"
          aria-label="Add a group by its name"
          placeholder={chosen.length > 0 ? "Add a group" : "Find a group by its name"}
          value={typed.value}
          onInput={(event) => (typed.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            const [best] = groups;
            if (event.key === "Enter" && best) add(best.name);
          }}
        />
      </div>
      {searching && page.error && <Failed error={page.error} retry={page.reload} />}
      {searching && page.data === null && !page.error && <Loading what="the groups" />}
      {searching && page.data !== null && groups.length === 0 && (
        <Blank title={typed.value ? "No group has this name" : "There are no runs to compare yet"}>
          <p>A group is the runs that share a name, such as one experiment with five seeds.</p>
          <a class="button" href={href(["new"], { seeds: 5 })}>
            Launch an experiment with 5 seeds
          </a>
        </Blank>
      )}
      {searching && groups.length > 0 && (
        <section class="panel">
          <header>
            <h2>{typed.value ? "Groups found" : "Newest groups"}</h2>
            <span class="faint">a group is the runs that share a name</span>
          </header>
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Groups">
            <table class="plain">
              <thead>
                <tr>
                  <th>Group</th>
                  <th class="number">Runs</th>
                  <th class="hide-narrow">Algorithm</th>
                  <th class="hide-narrow">Environment</th>
                  <th class="number">Best return</th>
                  <th class="hide-narrow">Newest</th>
                  <th>
                    <span class="visually-hidden">Add</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {groups.slice(0, MOST).map((group) => (
                  <tr key={group.name}>
                    <th scope="row">{group.name}</th>
                    <td class="number">{group.runs.length}</td>
                    <td class="hide-narrow">{group.algo}</td>
                    <td class="hide-narrow">{group.env}</td>
                    <td class="number">{measured(bestReturn(group.runs))}</td>
                    <td class="soft hide-narrow">{ago(group.newest)}</td>
                    <td class="actions">
                      <Button icon="add" label={`Compare ${group.name}`} onClick={() => add(group.name)}>
                        <span class="hide-narrow">Compare</span>
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}

function groupsOf(runs: readonly Run[]): Group[] {
  const groups = new Map<string, Group>();
  for (const run of runs) {
    const group = groups.get(run.name);
    if (group) group.runs.push(run);
    else groups.set(run.name, { name: run.name, algo: run.algo, env: run.env_id, runs: [run], newest: run.created_at });
  }
  return [...groups.values()];
}

function bestReturn(runs: readonly Run[]): number | null {
  const values = runs.map((run) => run.eval_return).filter((value) => value !== null);
  return values.length > 0 ? Math.max(...values) : null;
}
