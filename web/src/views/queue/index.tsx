/** Queue: what runs, what waits and in which order, what is paused, who serves it. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";

import { act, mayAct } from "../../api/client";
import { useDocument } from "../../api/document";
import type { Run } from "../../api/types";
import { useKeys } from "../../keys";
import { go, href, param, setParams } from "../../router";
import { Blank, Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { confirm } from "../../ui/dialog";
import { ago, bytes, count, short } from "../../ui/format";
import { Heading } from "../../ui/heading";
import { Icon } from "../../ui/icon";
import { State } from "../../ui/state";
import { attempt } from "../../ui/toast";
import type { ViewProps } from "../../views";
import { moved } from "./order";
import "./queue.css";
import type { QueueDocument, Resources } from "./types";


export default function Queue(_props: ViewProps): JSX.Element {
  const queue = useDocument<QueueDocument>("/queue", ({ topic }) => topic === "queue" || topic === "run");
  if (queue.data === null) {
    return (
      <>
        <Heading title="Queue" />
        {queue.error ? <Failed error={queue.error} retry={queue.reload} /> : <Loading what="the queue" />}
      </>
    );
  }
  return <Shown queue={queue.data} reload={queue.reload} />;
}

function Shown({ queue, reload }: { queue: QueueDocument; reload: () => void }): JSX.Element {
  const ordering = useSignal<string[] | null>(null); // as it was just asked for, until the server shows it
  const queued = ordering.value === null ? queue.queued : inOrder(queue.queued, ordering.value);
  const rows = [...queue.running, ...queued, ...queue.paused];
  const chosen = rows.find((run) => run.id === param("run"));
  const isAble = mayAct();

  const step = (by: number): void => {
    const place = chosen === undefined ? (by > 0 ? -1 : rows.length) : rows.indexOf(chosen);
    setParams({ run: rows[Math.max(0, Math.min(rows.length - 1, place + by))]?.id });
  };
  const move = async (run: Run | undefined, by: number): Promise<void> => {
    const ids = run === undefined || !isAble ? null : moved(queued.map(({ id }) => id), run.id, by);
    if (ids === null) return;
    ordering.value = ids;
    await attempt(() => act("POST", "/queue/order", { ids }));
    reload();
    setTimeout(() => (ordering.value = null), SETTLE_MS);
  };
  const doing = async (run: Run, verb: "pause" | "resume" | "cancel" | "stop", done: string): Promise<void> => {
    await attempt(() => act("POST", `/runs/${run.id}/${verb}`, {}), done);
    reload();
  };
  const cancel = async (run: Run): Promise<void> => {
    const yes = await confirm({ title: `Cancel ${run.name}?`, detail: "It leaves the queue for good. What it has written stays.", confirm: "Cancel the run", danger: true });
    if (yes) await doing(run, "cancel", `${run.name} is cancelled.`);
  };
  useKeys("Queue", {
    j: ["Next run", () => step(1)],
    k: ["Previous run", () => step(-1)],
    J: ["Move the run down", () => void move(chosen, 1)],
    K: ["Move the run up", () => void move(chosen, -1)],
    G: ["Move the run to the top", () => void move(chosen, -queued.length)],
    Enter: ["Open the run", () => chosen && go(href(["runs", chosen.id]))],
    x: ["Cancel the run", () => chosen && isAble && void cancel(chosen)],
  });

  const row = (run: Run, extra: ComponentChildren, place?: number): JSX.Element => (
    <tr key={run.id} class={run.id === chosen?.id ? "chosen" : ""} aria-current={run.id === chosen?.id ? "true" : undefined} onClick={() => setParams({ run: run.id })}>
      <td class="number place hide-narrow">{place ?? ""}</td>
      <th scope="row">
        <a href={href(["runs", run.id])}>{run.name}</a> <span class="faint mono">{run.handle}</span>
      </th>
      <td>
        <State run={run} />
      </td>
      <td class="hide-narrow">{run.algo}</td>
      <td class="hide-narrow">{run.env_id}</td>
      <td class="number hide-narrow">{run.priority}</td>
      <td class="hide-narrow">{run.owner}</td>
      <td class="hide-narrow">
        <Progress run={run} />
      </td>
      <td class="soft hide-narrow">{ago(run.created_at)}</td>
      <td class="actions">{isAble && extra}</td>
    </tr>
  );
  const isEmpty = rows.length === 0;
  return (
    <>
      <Heading title="Queue" sub={`${queue.running.length} at work, ${queued.length} waiting`} />
      <div class="body queue">
        <Workers queue={queue} />
        {isEmpty ? (
          <Blank title="Nothing runs and nothing waits">
            <p>
              Launch an experiment here, or put one into the queue with <code>rlctl launch -f FILE --detach</code>.
            </p>
            <a class="button" href={href(["new"])}>
              New experiment
            </a>
          </Blank>
        ) : (
          <section class="panel scroll-x" tabIndex={0} role="region" aria-label="Runs of the queue">
            <table class="plain queue-table">
              <thead>
                <tr>
                  <th class="number hide-narrow">Place</th>
                  <th>Run</th>
                  <th>State</th>
                  <th class="hide-narrow">Algorithm</th>
                  <th class="hide-narrow">Environment</th>
                  <th class="number hide-narrow">Priority</th>
                  <th class="hide-narrow">Owner</th>
                  <th class="hide-narrow">Progress</th>
                  <th class="hide-narrow">Created</th>
                  <th>
                    <span class="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {queue.running.map((run) =>
                  row(run, <Button kind="quiet" icon="pause" label={`Pause ${run.name}: it keeps its place`} onClick={() => void doing(run, "pause", `${run.name} pauses at its next safe point.`)} />),
                )}
                {queued.map((run, index) =>
                  row(
                    run,
                    <>
                      <Button kind="quiet" icon="up" label={`Move ${run.name} up (K)`} disabled={index === 0} onClick={() => void move(run, -1)} />
                      <Button kind="quiet" icon="down" label={`Move ${run.name} down (J)`} disabled={index === queued.length - 1} onClick={() => void move(run, 1)} />
                      <Button kind="quiet" icon="close" label={`Cancel ${run.name} (x)`} onClick={() => void cancel(run)} />
                    </>,
                    index + 1,
                  ),
                )}
                {queue.paused.map((run) => row(run, <Button kind="quiet" icon="play" label={`Resume ${run.name}`} onClick={() => void doing(run, "resume", `${run.name} is back in the queue.`)} />))}
              </tbody>
            </table>
          </section>
        )}
        {queue.not_recorded.length > 0 && (
          <p class="queue-note tone-warn">
            <Icon name="warning" /> The process of {queue.not_recorded.map((run) => run.name).join(", ")} is gone. The server records that at its next round; <code>rlctl queue --reap</code> does it at once.
          </p>
        )}
      </div>
    </>
  );
}

const SETTLE_MS = 1_500;

function inOrder(runs: QueueDocument["queued"], ids: readonly string[]): QueueDocument["queued"] {
  const place = new Map(ids.map((id, index) => [id, index])); // runs that are not among them keep their order behind
  return [...runs].sort((one, other) => (place.get(one.id) ?? ids.length) - (place.get(other.id) ?? ids.length));
}

function Progress({ run }: { run: Run }): JSX.Element {
  const share = run.total_epochs > 0 ? Math.min(1, run.epoch / run.total_epochs) : 0;
  return (
    <span class="run-progress" title={`${count(run.env_steps)} steps`}>
      <span class="track" aria-hidden="true">
        <i style={{ width: `${share * 100}%` }} />
      </span>
      <span class="soft">
        {run.epoch} of {run.total_epochs}
      </span>
    </span>
  );
}

function Workers({ queue }: { queue: QueueDocument }): JSX.Element {
  if (queue.workers.length === 0) {
    return (
      <p class={`queue-note ${queue.queued.length > 0 ? "tone-warn" : ""}`}>
        <Icon name={queue.queued.length > 0 ? "warning" : "help"} />
        <span>
          No worker serves this queue. One comes with <code>rlctl serve</code>; start another with <code>rlctl worker</code>.
        </span>
      </p>
    );
  }
  const { slots, in_use: inUse, workers } = queue;
  const speed = Math.max(...workers.map((worker) => worker.steps_per_second));
  return (
    <div class="capacity">
      <section class="panel" aria-label="Slots">
        <h2>Slots</h2>
        <dl>
          <Slot name="CPUs" used={String(inUse.cpus)} of={String(slots.cpus)} share={shareOf("cpus", queue)} />
          {slots.gpus > 0 && <Slot name="GPUs" used={String(inUse.gpus)} of={String(slots.gpus)} share={shareOf("gpus", queue)} />}
          <Slot name="Memory" used={inUse.memory_mb > 0 ? bytes(inUse.memory_mb * MB) : "0"} of={bytes(slots.memory_mb * MB)} share={shareOf("memory_mb", queue)} />
        </dl>
      </section>
      <section class="panel" aria-label="Workers">
        <h2>{workers.length === 1 ? "Worker" : `${workers.length} workers`}</h2>
        <ul>
          {workers.map((worker) => (
            <li key={worker.id}>
              <b class="cut" title={worker.id}>
                {worker.host}
              </b>
              <span class="soft">
                {worker.cpus} {worker.cpus === 1 ? "CPU" : "CPUs"}
                {worker.gpus > 0 && `, ${worker.gpus} ${worker.gpus === 1 ? "GPU" : "GPUs"}`}, {bytes(worker.memory_mb * MB)}
              </span>
            </li>
          ))}
        </ul>
        {speed > 0 && <p class="faint">{short(Math.round(speed))} steps a second in all runs together</p>}
      </section>
    </div>
  );
}

const MB = 2 ** 20;

const shareOf = (kind: keyof Resources, { slots, in_use }: QueueDocument): number => (slots[kind] > 0 ? Math.min(1, in_use[kind] / slots[kind]) : 0);

/** What the runs at work asked for, of what all workers have. */
function Slot({ name, used, of, share }: { name: string; used: string; of: string; share: number }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <b>{used}</b> <span class="soft">of {of}</span>
        <span class="track" aria-hidden="true">
          <i style={{ width: `${share * 100}%` }} />
        </span>
      </dd>
    </div>
  );
}
