/** How far each view was scrolled: back and forward lead to that place, every other way to the top. */
import { useLayoutEffect } from "preact/hooks";
import { isRevisit, path } from "./router";

const tops = new Map<string, number>();
/** What a view shows comes from the server: so long it may grow until the place is there. */
const PATIENCE_MS = 2_000;

export function useScrollPlace(find: () => HTMLElement | null): void {
  const here = path.value.join("/");
  useLayoutEffect(() => {
    const element = find();
    if (!element) return;
    const wanted = isRevisit ? (tops.get(here) ?? 0) : 0;
    const until = Date.now() + PATIENCE_MS;
    let frame = 0;
    const look = (): void => {
      element.scrollTop = wanted;
      if (element.scrollTop < wanted && Date.now() < until) frame = requestAnimationFrame(look);
    };
    const stop = (): void => cancelAnimationFrame(frame);
    const keep = (): void => void tops.set(here, element.scrollTop);
    look();
    element.addEventListener("wheel", stop, { passive: true });
    element.addEventListener("scroll", keep, { passive: true });
    return () => {
      stop();
      element.removeEventListener("wheel", stop);
      element.removeEventListener("scroll", keep);
    };
  }, [here]);
}
