/** All curves of one run, kept current: what is new is fetched from the cursor of the last answer. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError, explain, get, query } from "../../api/client";
import { follow, listen, resyncs } from "../../api/stream";
import type { Zoom } from "../../chart/zoom";
import type { Series, SeriesAnswer } from "../../api/types";

export type SeriesByName = Record<string, Series>;

export interface Curves {
  series: SeriesByName | null;
  error: ApiError | null;
  /** Finer points of the part that is zoomed into; null until they are there. */
  detail: SeriesByName | null;
}

const POINTS = 800;
/** After so many points more than asked for, all are sampled anew. */
const SURPLUS = 1_600;
const PACE_MS = 400;
const ZOOM_MS = 180;

/** The old points with the new ones behind them. */
function joined(before: Series | undefined, after: Series): Series {
  if (!before?.x.length) return after;
  if (!after.x.length) return before;
  return { x: [...before.x, ...after.x], y: [...before.y, ...after.y], clock: [...(before.clock ?? []), ...(after.clock ?? [])] };
}

export function useCurves(id: string, names: string, zoom: Zoom): Curves {
  const state = useSignal<{ series: SeriesByName | null; error: ApiError | null }>({ series: null, error: null });
  const detail = useSignal<SeriesByName | null>(null);

  useEffect(() => {
    let cursor: string | null = null;
    let busy = false;
    let again = false;
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stopFollowing = follow([id]);

    const load = async (): Promise<void> => {
      if (busy) {
        again = true;
        return;
      }
      busy = true;
      try {
        const answer: SeriesAnswer = await get(`/runs/${encodeURIComponent(id)}/series${query({ names, points: POINTS, after: cursor })}`);
        if (gone) return;
        // Whole curves come first, and again after the run went back to a checkpoint: they replace what was there.
        const before = cursor === null || answer.complete ? {} : (state.peek().series ?? {});
        const series = { ...before };
        for (const [name, fresh] of Object.entries(answer.series)) series[name] = joined(before[name], fresh);
        cursor = answer.next;
        if (Object.values(series).some((one) => one.x.length > POINTS + SURPLUS)) cursor = null;
        state.value = { series, error: null };
      } catch (error) {
        if (!gone) state.value = { ...state.peek(), error: error instanceof ApiError ? error : new ApiError(explain(error), 0) };
      } finally {
        busy = false;
        if (again && !gone) {
          again = false;
          void load();
        }
      }
    };
    void load();
    const stopListening = listen(({ topic, data }) => {
      if (topic !== "metrics" && topic !== "run") return;
      if ((data["run"] ?? data["run_id"] ?? data["id"]) !== id) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void load();
      }, PACE_MS);
    });
    const stopResync = resyncs.subscribe(() => state.peek().series && void load());
    return () => {
      gone = true;
      clearTimeout(timer);
      stopFollowing();
      stopListening();
      stopResync();
    };
  }, [id, names]);

  // Only what was sampled has more to show.
  const sampled = Object.values(state.value.series ?? {}).some((one) => one.x.length > POINTS / 4);
  useEffect(() => {
    detail.value = null;
    if (!zoom || !sampled) return;
    let gone = false;
    const timer = setTimeout(() => {
      const [from, to] = [Math.max(0, Math.floor(zoom[0])), Math.max(0, Math.ceil(zoom[1]))];
      get<SeriesAnswer>(`/runs/${encodeURIComponent(id)}/series${query({ names, points: POINTS, from, to })}`).then(
        (answer) => !gone && (detail.value = answer.series),
        () => undefined,
      );
    }, ZOOM_MS);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [id, names, zoom?.[0], zoom?.[1], sampled]);

  return { ...state.value, detail: detail.value };
}
