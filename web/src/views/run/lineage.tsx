/** Where a run comes from and what came of it, as a tree: the server lists parents before their forks. */
import type { Relative, RunDetail } from "../../api/types";
import { href } from "../../router";
import { clock, plain, short } from "../../ui/format";
import { STATE_TONES } from "../../ui/state";

const ROW = 44;
const INDENT = 34;
const LEFT = 14;

export function LineageTab({ run }: { run: RunDetail }) {
  const relatives = run.relatives ?? [];
  return (
    <div class="gap-above lineage">
      {relatives.length > 1 ? (
        <Tree relatives={relatives} current={run.id} />
      ) : (
        <p class="soft">This run has no parent, and no run was forked from it yet.</p>
      )}
      <Facts run={run} />
    </div>
  );
}

function Tree({ relatives, current }: { relatives: readonly Relative[]; current: string }) {
  const at = new Map(relatives.map((relative, index) => [relative.id, index]));
  const depth = (relative: Relative): number => relative.depth ?? 0;
  const x = (relative: Relative): number => LEFT + depth(relative) * INDENT;
  const y = (index: number): number => index * ROW + ROW / 2;
  return (
    <section class="panel scroll-x">
      <header>
        <h2>Parents and forks</h2>
        <span class="faint">{relatives.length} runs</span>
      </header>
      <div class="tree" style={{ height: `${relatives.length * ROW}px` }}>
        <svg width={LEFT * 2 + Math.max(...relatives.map(depth)) * INDENT} height={relatives.length * ROW} aria-hidden="true">
          {relatives.map((relative, index) => {
            const parent = relative.parent_id ? at.get(relative.parent_id) : undefined;
            if (parent === undefined) return null;
            const from = relatives[parent] as Relative;
            return <path key={relative.id} class="edge" d={`M${x(from)} ${y(parent)} V${y(index) - 10} q0 10 10 10 H${x(relative)}`} />;
          })}
          {relatives.map((relative, index) => (
            <circle key={relative.id} class={`tone-${STATE_TONES[relative.state ?? "QUEUED"]}`} cx={x(relative)} cy={y(index)} r={relative.id === current ? 7 : 5} />
          ))}
        </svg>
        <ol>
          {relatives.map((relative, index) => (
            <li key={relative.id} style={{ top: `${index * ROW}px`, left: `${x(relative) + 16}px`, height: `${ROW}px` }}>
              <a href={href(["runs", relative.id])} aria-current={relative.id === current ? "page" : undefined}>
                {relative.name ?? relative.id}
              </a>
              <span class="faint">
                {relative.state?.toLowerCase()}
                {relative.env_steps !== undefined && `, ${short(relative.env_steps)} steps`}
                {relative.parent_step !== null && relative.parent_step !== undefined && `, forked at ${short(relative.parent_step)}`}
              </span>
            </li>
          ))}
        </ol>
      </div>
    </section>
  );
}

interface Code {
  commit?: string;
  dirty?: boolean;
}

/** What it was made with. */
function Facts({ run }: { run: RunDetail }) {
  const lineage = run.lineage ?? {};
  const code = (lineage["code"] as Record<string, Code | null> | undefined)?.["rlstudio"];
  const versions = (lineage["versions"] ?? {}) as Record<string, string>;
  const command = lineage["command"];
  const rows: [string, string][] = [
    ["Id", run.id],
    ["Created", clock(run.created_at)],
    ["By", `${run.owner} on ${run.host}`],
    ["Command", Array.isArray(command) ? command.map((part) => String(part).split("/").pop()).join(" ") : ""],
    ["Code", code?.commit ? `${code.commit.slice(0, 12)}${code.dirty ? ", with changes that are not committed" : ""}` : ""],
    ["Versions", Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(", ")],
    ["Resumes", run.exact ? "to the bit" : `not exactly: ${run.exact_reason}`],
    ...Object.entries(run.topology ?? {}).map(([name, value]): [string, string] => [name, plain(value)]),
    ["Seed", plain(run.seed)],
  ];
  return (
    <section class="panel gap-above">
      <header>
        <h2>Made with</h2>
      </header>
      <dl class="facts inside">
        {rows
          .filter(([, value]) => value)
          .map(([name, value]) => [<dt key={name}>{name}</dt>, <dd>{value}</dd>])}
      </dl>
    </section>
  );
}
