/** The views of the page: one file or folder below `views/` and one line here. Each is loaded when it is first opened. */
import type { ComponentType } from "preact";
import type { IconName } from "./ui/icon";

export interface ViewProps {
  /** What follows the name in the address: `["7761"]` in `#/runs/7761`. */
  rest: string[];
}

export interface View {
  /** First part of the address. */
  name: string;
  title: string;
  icon: IconName;
  /** `g` and this key open it. */
  key: string;
  load: () => Promise<{ default: ComponentType<ViewProps> }>;
}

export const VIEWS: readonly View[] = [
  { name: "runs", title: "Runs", icon: "runs", key: "r", load: () => import("./views/runs") },
  { name: "compare", title: "Compare", icon: "compare", key: "c", load: () => import("./views/compare") },
  { name: "sweeps", title: "Sweeps", icon: "sweep", key: "s", load: () => import("./views/sweeps") },
  { name: "registry", title: "Registry", icon: "registry", key: "m", load: () => import("./views/registry") },
  { name: "queue", title: "Queue", icon: "queue", key: "u", load: () => import("./views/queue") },
  { name: "new", title: "New", icon: "add", key: "n", load: () => import("./views/new") },
];
