/** What happened in a run. Incidents are what somebody should look at: guardrails, refused checkpoints, restarts. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError, explain, get, query } from "../../api/client";
import { follow, listen, resyncs } from "../../api/stream";
import type { RunEvent } from "../../api/types";
import type { Json } from "../../experiment/fields";
import { flow } from "../../experiment/values";
import { param, setParams } from "../../router";
import { Blank, Failed, Loading } from "../../ui/blank";
import { Segments } from "../../ui/button";
import { clock } from "../../ui/format";

const ROUTINE = /^(created|lineage|seeded|registered|checkpointed|resumed|extended|queued|starting|running|stopping|completed|cancelled)$/;
const GRAVE = /diverged|collapsed|rejected|damaged|failed/;
/** A run that its user stopped or paused is none. */
export const isIncident = ({ kind, reason }: RunEvent): boolean => !ROUTINE.test(kind) && !(kind === "interrupted" && (reason === "user" || reason === "paused"));

const LIMIT = 1_000;

/** Events from the cursor of the last answer on. */
export function useEvents(id: string): { events: RunEvent[] | null; error: ApiError | null } {
  const state = useSignal<{ events: RunEvent[] | null; error: ApiError | null }>({ events: null, error: null });
  useEffect(() => {
    let next = 0;
    let busy = false;
    let gone = false;
    const load = async (): Promise<void> => {
      if (busy) return;
      busy = true;
      try {
        for (;;) {
          const answer: { items: RunEvent[]; next: number } = await get(`/runs/${encodeURIComponent(id)}/events${query({ after: next, limit: LIMIT })}`);
          if (gone) return;
          const fresh = answer.items.filter((event) => event.seq > next);
          next = Math.max(next, answer.next ?? 0);
          state.value = { events: [...(state.peek().events ?? []), ...fresh], error: null };
          if (fresh.length < LIMIT) break;
        }
      } catch (error) {
        if (!gone) state.value = { ...state.peek(), error: error instanceof ApiError ? error : new ApiError(explain(error), 0) };
      } finally {
        busy = false;
      }
    };
    void load();
    const stopFollowing = follow([id]);
    const stopListening = listen(({ topic, data }) => {
      if ((topic === "event" || topic === "run") && (data["run"] ?? data["run_id"] ?? data["id"]) === id) void load();
    });
    const stopResync = resyncs.subscribe(() => state.peek().events && void load());
    return () => {
      gone = true;
      stopFollowing();
      stopListening();
      stopResync();
    };
  }, [id]);
  return state.value;
}

export function EventsTab({ events, error }: { events: RunEvent[] | null; error: ApiError | null }) {
  if (!events) return error ? <Failed error={error} /> : <Loading what="events" />;
  const all = param("events") === "all";
  const shown = (all ? events : events.filter(isIncident)).toReversed();
  return (
    <>
      <div class="toolbar gap-above">
        <Segments
          label="Which events"
          value={all ? "all" : "incidents"}
          options={[
            ["incidents", "Incidents"],
            ["all", `All ${events.length}`],
          ]}
          onChange={(value) => setParams({ events: value === "all" ? "all" : "" })}
        />
      </div>
      {shown.length === 0 ? (
        <Blank title="No incidents">
          <p>No guardrail stepped in, no checkpoint was refused, no environment had to be started again.</p>
        </Blank>
      ) : (
        <section class="panel gap-above scroll-x">
          <table class="plain events">
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col">What</th>
                <th scope="col">Details</th>
              </tr>
            </thead>
            <tbody>
              {shown.slice(0, 500).map((event) => (
                <tr key={event.seq}>
                  <td class="soft when">
                    {event.time === null ? "–" : clock(event.time)}
                  </td>
                  <td>
                    <span class={`chip tone-${GRAVE.test(event.kind) ? "bad" : isIncident(event) ? "warn" : "idle"}`}>{event.kind.replaceAll("_", " ")}</span>
                  </td>
                  <td class="details">
                    <Details event={event} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

/** Of no use to a reader: what the columns show already, what tells processes apart, and the settings that the advice names. */
const LEFT_OUT = new Set(["seq", "time", "kind", "run", "run_id", "id", "boot_id", "pid", "pid_start", "pid_namespace", "settings"]);
const HASH = /\b([0-9a-f]{12})[0-9a-f]{20,}\b/g;
const LONGEST = 240;

/** What happened comes first, then why and what helps, then its other fields by their names. */
function Details({ event }: { event: RunEvent }) {
  const { message, what, cause, advice, ...others } = event;
  const said = [message || what, cause].filter((part): part is string => typeof part === "string" && part !== "");
  const fields = Object.entries(others).filter(([name, value]) => !LEFT_OUT.has(name) && value !== "" && value !== null);
  const parts = fields.map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "string" ? value : flow(value as Json)}`);
  const text = parts.join(" · ").replace(HASH, "$1");
  return (
    <>
      {said.length > 0 && (
        <p>
          {said[0]}
          {said[1] && <span class="soft">: {said[1]}</span>}
        </p>
      )}
      {typeof advice === "string" && advice && (
        <p>
          <b>{advice}</b>
        </p>
      )}
      {text && <p class={said.length ? "faint" : "soft"}>{text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text}</p>}
    </>
  );
}
