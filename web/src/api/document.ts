/** A document of the server as a signal: loaded, kept while it is loaded again, and fresh as long as it is shown. */
import { useSignal } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import { ApiError, explain, get } from "./client";
import { listen, resyncs, type StreamEvent } from "./stream";

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  loading: boolean;
  reload: () => void;
  /** Shows a document that an action has answered with. */
  set: (data: T) => void;
}

/** Loads `path` (null: nothing) again when it changes, after a lost connection, and for events that `when` accepts. */
export function useDocument<T>(path: string | null, when?: (event: StreamEvent) => boolean): Loaded<T> {
  const state = useSignal<{ path: string | null; data: T | null; error: ApiError | null; loading: boolean }>({
    path: null,
    data: null,
    error: null,
    loading: path !== null,
  });
  const current = useRef(path);
  current.current = path;
  const busy = useRef(false);
  const again = useRef(false);

  const load = useCallback(async (): Promise<void> => {
    const asked = current.current;
    if (asked === null) return;
    if (busy.current) {
      again.current = true;
      return;
    }
    busy.current = true;
    try {
      const data = await get<T>(asked);
      if (current.current === asked) state.value = { path: asked, data, error: null, loading: false };
    } catch (error) {
      const failure = error instanceof ApiError ? error : new ApiError(explain(error), 0);
      const before = state.peek();
      // What was removed meanwhile is shown no longer; what could not be loaded again stays.
      const stays = before.path === asked && failure.status !== 404;
      if (current.current === asked) state.value = { path: asked, data: stays ? before.data : null, error: failure, loading: false };
    } finally {
      busy.current = false;
      if (again.current || current.current !== asked) {
        again.current = false;
        void load();
      }
    }
  }, []);

  useEffect(() => {
    if (path === null) return;
    const before = state.peek();
    state.value = { ...before, loading: true };
    void load();
  }, [path, resyncs.value]);

  const wanted = useRef(when);
  wanted.current = when;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = listen((event) => {
      if (!wanted.current?.(event)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void load();
      }, 150);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, []);

  const { data, error, loading, path: shown } = state.value;
  return {
    data: shown === path ? data : null,
    error: shown === path ? error : null,
    loading: loading || shown !== path,
    reload: () => void load(),
    set: (changed) => {
      state.value = { path, data: changed, error: null, loading: false };
    },
  };
}
