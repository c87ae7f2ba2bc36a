/** What can be done with one run. Each says how it went. */
import { act, ApiError, settled } from "../../api/client";
import { isActive, type Operation, type Run, type RunDetail } from "../../api/types";
import { go, href } from "../../router";
import { ask, confirm } from "../../ui/dialog";
import { attempt, toast } from "../../ui/toast";
import { removeRuns } from "../runs/bulk";
import { tableAddress } from "../runs/left";
import { putAnswer } from "../runs/store";

const words = (text: string): string[] => text.split(/\s+/).filter(Boolean);

/** Stop, pause and cancel take effect at the next safe point of the training. */
export async function steer(run: Run, how: "stop" | "pause" | "cancel"): Promise<void> {
  if (how === "cancel") {
    const sure = await confirm({ title: `Cancel ${run.name}?`, detail: "It ends for good and cannot be resumed. To go on later, stop or pause it.", confirm: "Cancel the run", danger: true });
    if (!sure) return;
  }
  const said = { stop: "Stopping: it saves a checkpoint first", pause: "Pausing: it saves a checkpoint first", cancel: "Cancelling" }[how];
  await attempt(() => putAnswer(act<Run>("POST", `/runs/${run.id}/${how}`, {})), said);
}

export const isResumable = (run: Run): boolean => run.state === "INTERRUPTED" || run.state === "FAILED" || run.state === "COMPLETED";

export async function resumeRun(run: Run): Promise<void> {
  const ended = run.state === "COMPLETED";
  const typed = await ask({
    title: `Resume ${run.name}`,
    detail: ended ? "It has reached its last epoch. With more epochs it learns on from its last checkpoint." : "It continues from its last checkpoint.",
    confirm: "Resume",
    input: { label: "Changed settings", value: ended ? `train.epochs=${run.total_epochs * 2}` : "", suggestions: [`train.epochs=${run.total_epochs * 2}`] },
  });
  if (typed === null) return;
  await attempt(() => putAnswer(act<Run>("POST", `/runs/${run.id}/resume`, { overrides: words(typed) })), "Resumed: it is in the queue");
}

export async function forkRun(run: RunDetail, step?: number): Promise<void> {
  const at = step ?? run.checkpoints.at(-1)?.step;
  const typed = await ask({
    title: `Fork ${run.name}${at === undefined ? "" : ` at step ${at.toLocaleString("en-US")}`}`,
    detail: "A new run begins with these weights and learns on with the settings you change.",
    confirm: "Fork",
    input: { label: "Changed settings, such as train.lr=1e-4", value: "", suggestions: ["train.lr=1e-4", "env.seed=1"] },
  });
  if (typed === null) return;
  await attempt(async () => {
    const made = await putAnswer(act<Run>("POST", `/runs/${run.id}/fork`, { ...(at === undefined ? {} : { at: String(at) }), overrides: words(typed) }));
    go(href(["runs", made.id]));
  }, "Forked: the new run is in the queue");
}

export async function exportCheckpoint(run: RunDetail, checkpoint: string): Promise<void> {
  toast("Exporting …", "idle");
  await attempt(async () => {
    const { download } = await settled(await act<Operation>("POST", `/runs/${run.id}/export`, { checkpoint }));
    if (!download) throw new ApiError("The server exported it, but offers no download.", 500);
    const link = document.createElement("a");
    link.href = download.replace(/^\//, "");
    link.download = "";
    link.click();
  }, "Exported: the bundle is downloaded");
}

export async function removeRun(run: Run): Promise<void> {
  if (isActive(run)) {
    toast("Stop the run first", "bad");
    return;
  }
  if (await removeRuns([run])) go(tableAddress.peek());
}
