/** The tail of what a run printed; it grows from the byte where the last piece ended. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { ApiError, explain, get, query } from "../../api/client";
import { follow, listen, resyncs } from "../../api/stream";
import type { LogPart } from "../../api/types";
import { Blank, Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { bytes } from "../../ui/format";
import { attempt } from "../../ui/toast";

const TAIL = 64 * 1024;
const KEPT = 2_000_000;
const PACE_MS = 300;
const NEAR_END_PX = 40;

export function LogTab({ id }: { id: string }) {
  const part = useSignal<LogPart | null>(null);
  const error = useSignal<ApiError | null>(null);
  const element = useRef<HTMLPreElement>(null);
  const following = useRef(true);

  useEffect(() => {
    let busy = false;
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const path = `/runs/${encodeURIComponent(id)}/log`;
    const load = async (): Promise<void> => {
      if (busy) return;
      busy = true;
      try {
        for (;;) {
          const before = part.peek();
          const piece: LogPart = await get(path + query({ offset: before ? before.end : -TAIL, limit: TAIL }));
          if (gone) return;
          // A log that is shorter than before was begun anew.
          if (!before || piece.end < before.end) part.value = piece;
          else if (piece.end > before.end) part.value = { text: (before.text + piece.text).slice(-KEPT), offset: before.offset, end: piece.end };
          error.value = null;
          if (piece.end - piece.offset < TAIL) break;
        }
      } catch (failure) {
        if (!gone) error.value = failure instanceof ApiError ? failure : new ApiError(explain(failure), 0);
      } finally {
        busy = false;
      }
    };
    void load();
    const stopFollowing = follow([id]);
    const stopListening = listen(({ topic, data }) => {
      if (!["log", "metrics", "run"].includes(topic) || (data["run"] ?? data["run_id"] ?? data["id"]) !== id) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void load();
      }, PACE_MS);
    });
    const stopResync = resyncs.subscribe(() => part.peek() && void load());
    return () => {
      gone = true;
      clearTimeout(timer);
      stopFollowing();
      stopListening();
      stopResync();
    };
  }, [id]);

  useLayoutEffect(() => {
    if (following.current && element.current) element.current.scrollTop = element.current.scrollHeight;
  }, [part.value]);

  const current = part.value;
  if (!current) return error.value ? <Failed error={error.value} /> : <Loading what="the log" />;
  if (!current.end) return <Blank title="Nothing printed yet" />;
  const earlier = async (): Promise<void> => {
    const offset = Math.max(0, current.offset - TAIL);
    const piece: LogPart = await get(`/runs/${encodeURIComponent(id)}/log${query({ offset, limit: current.offset - offset })}`);
    following.current = false;
    const now = part.peek() ?? current;
    part.value = { ...now, text: piece.text + now.text, offset };
  };
  return (
    <section class="panel log-panel">
      <header>
        <h2>Log</h2>
        <span class="faint">{bytes(current.end)}</span>
        <span class="actions">
          {current.offset > 0 && (
            <Button kind="quiet" onClick={() => void attempt(earlier)}>
              Show earlier
            </Button>
          )}
        </span>
      </header>
      <pre
        class="log"
        ref={element}
        tabIndex={0}
        aria-label="Log"
        onScroll={(event) => {
          const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
          following.current = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
        }}
      >
        {current.text}
      </pre>
    </section>
  );
}
