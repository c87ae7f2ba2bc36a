/** What can be done with the selected runs. */
import { act, API, mayAct, query } from "../../api/client";
import { isActive, type Run } from "../../api/types";
import { go, href } from "../../router";
import { Button } from "../../ui/button";
import { ask, confirm } from "../../ui/dialog";
import { count } from "../../ui/format";
import { toast } from "../../ui/toast";
import { tally } from "./filter";
import { allRuns, putAnswer, remove } from "./store";

interface BulkProps {
  runs: Run[];
  knownTags: string[];
  onClear: () => void;
}

const runsOf = (number: number): string => (number === 1 ? "1 run" : `${count(number)} runs`);
const several = (runs: readonly unknown[]): string => runsOf(runs.length);

const PROGRESS_MS = 700;

/** One after the other: how far it is stands below, what fails is said once, what worked stays done. */
async function forEach(runs: readonly Run[], work: (run: Run) => Promise<void>, done: string): Promise<void> {
  const failures: string[] = [];
  let said = Date.now();
  for (const [index, run] of runs.entries()) {
    if (Date.now() - said > PROGRESS_MS) {
      said = Date.now();
      toast(`${done} ${count(index)} of ${several(runs)} so far …`, "idle", { subject: done });
    }
    try {
      await work(run);
    } catch (error) {
      failures.push(`${run.handle}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const worked = runs.length - failures.length;
  if (worked) toast(`${done} ${runsOf(worked)}`, "good", { subject: done });
  if (failures.length) toast(failures.slice(0, 3).join("; ") + (failures.length > 3 ? ` and ${failures.length - 3} more` : ""), "bad");
}

export async function stopRuns(runs: readonly Run[]): Promise<void> {
  const active = runs.filter(isActive);
  const sure = await confirm({
    title: `Stop ${several(active)}?`,
    detail: "Each saves a checkpoint first and can be resumed from it.",
    confirm: `Stop ${several(active)}`,
  });
  if (sure) await forEach(active, async (run) => void (await putAnswer(act<Run>("POST", `/runs/${run.id}/stop`, {}))), "Stopping");
}

export async function removeRuns(runs: readonly Run[]): Promise<boolean> {
  const sure = await confirm({
    title: `Remove ${several(runs)}?`,
    detail: "Their metrics, checkpoints and videos are deleted from the disk. Models that were promoted stay in the registry.",
    confirm: `Remove ${several(runs)}`,
    danger: true,
  });
  if (!sure) return false;
  await forEach(
    runs,
    async (run) => {
      await act("DELETE", `/runs/${run.id}`);
      remove([run.id]);
    },
    "Removed",
  );
  return true;
}

export async function tagRuns(runs: readonly Run[], knownTags: string[]): Promise<void> {
  const typed = await ask({
    title: `Tag ${several(runs)}`,
    detail: "Several tags are separated by commas; a minus before a tag takes it away.",
    confirm: "Tag",
    input: { label: "Tags", required: true, suggestions: knownTags },
  });
  if (!typed) return;
  const words = typed.split(",").map((word) => word.trim()).filter(Boolean);
  const away = words.filter((word) => word.startsWith("-")).map((word) => word.slice(1));
  const added = words.filter((word) => !word.startsWith("-"));
  await forEach(
    runs,
    async (run) => {
      const tags = [...new Set([...run.tags.filter((tag) => !away.includes(tag)), ...added])];
      await putAnswer(act<Run>("PATCH", `/runs/${run.id}`, { tags }, run.etag));
    },
    "Tagged",
  );
}

export async function noteRuns(runs: readonly Run[]): Promise<void> {
  const notes = new Set(runs.map((run) => run.note));
  const note = await ask({
    title: runs.length === 1 ? "Note" : `Note on ${several(runs)}`,
    detail: "What should somebody know who finds this run in a year?",
    confirm: "Save",
    input: { label: "Note", value: notes.size === 1 ? (runs[0]?.note ?? "") : "" },
  });
  if (note === null) return;
  await forEach(runs, async (run) => void (await putAnswer(act<Run>("PATCH", `/runs/${run.id}`, { note }, run.etag))), "Noted on");
}

/** A server takes addresses of 8,192 bytes, and at most 200 names in one of them (`MOST_NAMES` there). */
const LONGEST_ADDRESS = 8_000;
const MOST_NAMES = 200;

const fitsAddress = (names: readonly string[]): boolean => names.length <= MOST_NAMES && encodeURIComponent(names.join(",")).length <= LONGEST_ADDRESS;

/** One file, whose rows say of which run they are where there are several. */
export function downloadCsv(runs: readonly Run[]): void {
  const [only] = runs;
  const ids = runs.map((run) => run.id);
  if (!fitsAddress(ids)) {
    toast(`${several(runs)} are too many for one file here. \`rlctl metrics\` writes any number of runs.`, "bad");
    return;
  }
  const link = document.createElement("a");
  link.href = `${API}${only && runs.length === 1 ? `/runs/${only.id}/metrics.csv` : `/metrics.csv${query({ runs: ids.join(",") })}`}`;
  link.download = only && runs.length === 1 ? `${only.name}-${only.handle}.csv` : `metrics-of-${runs.length}-runs.csv`;
  link.click();
}

/** Runs that are all of their name are one word of the address, and stay together when another seed joins them. */
export function compareRuns(runs: readonly Run[]): void {
  const sizes = new Map(tally(allRuns.peek(), (run) => [run.name]));
  const chosen = new Map(tally(runs, (run) => [run.name]));
  const isWhole = (name: string): boolean => chosen.get(name) === sizes.get(name) && !name.includes(",");
  const refs = [...new Set(runs.map((run) => (isWhole(run.name) ? run.name : run.id)))];
  if (fitsAddress(refs)) go(href(["compare"], { runs: refs.join(",") }));
  else toast(`${several(runs)} are too many to compare at once: select fewer, or whole groups.`, "bad");
}

export function Bulk({ runs, knownTags, onClear }: BulkProps) {
  if (!runs.length) return null;
  const active = runs.filter(isActive).length;
  return (
    <div class="chosen-bar" role="toolbar" aria-label="Selected runs">
      <b>{several(runs)} selected</b>
      <Button icon="compare" onClick={() => compareRuns(runs)}>
        Compare
      </Button>
      {mayAct() && (
        <>
          <Button icon="stop" disabled={!active} onClick={() => void stopRuns(runs)}>
            Stop{active > 0 && active < runs.length ? ` ${active}` : ""}
          </Button>
          <Button icon="tag" onClick={() => void tagRuns(runs, knownTags)}>
            Tag
          </Button>
          <Button icon="note" onClick={() => void noteRuns(runs)}>
            Note
          </Button>
        </>
      )}
      <Button icon="download" onClick={() => downloadCsv(runs)}>
        CSV
      </Button>
      {mayAct() && (
        <Button icon="trash" kind="danger" disabled={active > 0} label={active > 0 ? "Stop what still runs first" : "Remove"} onClick={() => void removeRuns(runs).then((done) => done && onClear())}>
          Remove
        </Button>
      )}
      <span class="grow" />
      <Button kind="quiet" onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}
