/** The part of x that the charts of a view show: `?zoom=2000..9000`, all of it where there is none. */
import { computed } from "@preact/signals";
import { param, setParams } from "../router";

export type Zoom = readonly [number, number] | null;

/** The same array until the address changes. */
export const zoom = computed<Zoom>(() => {
  const [from, to] = param("zoom").split("..").map(Number);
  return from !== undefined && to !== undefined && to > from ? [from, to] : null;
});

export const setZoom = (range: Zoom): void => setParams({ zoom: range?.map((end) => Number(end.toPrecision(7))).join("..") });
