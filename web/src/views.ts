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
];
