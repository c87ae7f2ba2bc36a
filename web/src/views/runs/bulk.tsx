/** What can be done with the selected runs. */
import { act, API, mayAct, query } from "../../api/client";
import { isActive, type Run } from "../../api/types";
import { go, href } from "../../router";
import { Button } from "../../ui/button";
import { ask, confirm } from "../../ui/dialog";
import { toast } from "../../ui/toast";
import { putAnswer, remove } from "./store";

interface BulkProps {
  runs: Run[];
  knownTags: string[];
  onClear: () => void;
}

const several = (runs: readonly unknown[]): string => (runs.length === 1 ? "1 run" : `${runs.length} runs`);

/** One after the other: what fails is said once, what worked stays done. */
async function forEach(runs: readonly Run[], work: (run: Run) => Promise<void>, done: string): Promise<void> {
  const failures: string[] = [];
  for (const run of runs) {
    try {
      await work(run);
    } catch (error) {
      failures.push(`${run.handle}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const worked = runs.length - failures.length;
  if (worked) toast(`${done} ${worked === 1 ? "1 run" : `${worked} runs`}`);
  if (failures.length) toast(failures.slice(0, 3).join("; ") + (failures.length > 3 ? ` and ${failures.length - 3} more` : ""), "bad");
}

export async function stopRuns(runs: readonly Run[]): Promise<void> {
  const active = runs.filter(isActive);
  const sure = await confirm({
    title: `Stop ${several(active)}?`,
    detail: "Each saves a checkpoint first and can be resumed from it.",
    confirm: `Stop ${several(active)}`,
  });
  if (sure) await forEach(active, async (run) => void (await putAnswer(act<Run>("POST", `/runs/${run.id}/stop`, {}))), "Asked to stop:");
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
    detail: "What somebody should know who finds this in a year.",
    confirm: "Save",
    input: { label: "Note", value: notes.size === 1 ? (runs[0]?.note ?? "") : "" },
  });
  if (note === null) return;
  await forEach(runs, async (run) => void (await putAnswer(act<Run>("PATCH", `/runs/${run.id}`, { note }, run.etag))), "Noted on");
}

/** The most runs that one table is asked for: their ids stand in the address. */
const RUNS_OF_A_TABLE = 200;

/** One file, whose rows say of which run they are where there are several: browsers stop a page that saves many. */
export function downloadCsv(runs: readonly Run[]): void {
  const [only] = runs;
  for (let first = 0; first < runs.length; first += RUNS_OF_A_TABLE) {
    const ids = runs.slice(first, first + RUNS_OF_A_TABLE).map((run) => run.id);
    const link = document.createElement("a");
    link.href = `${API}${only && runs.length === 1 ? `/runs/${only.id}/metrics.csv` : `/metrics.csv${query({ runs: ids.join(",") })}`}`;
    link.download = only && runs.length === 1 ? `${only.name}-${only.handle}.csv` : `metrics-of-${ids.length}-runs.csv`;
    link.click();
  }
}

export const compareRuns = (runs: readonly Run[]): void => go(href(["compare"], { runs: runs.map((run) => run.id).join(",") }));

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
