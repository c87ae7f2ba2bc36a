/** `#/runs` is the table of all runs, `#/runs/ID` one of them, whose charts are loaded when they are needed. */
import { Lazy } from "../../ui/lazy";
import type { ViewProps } from "../../views";
import { RunTable } from "./table";

const load = () => import("../run");

export default function Runs({ rest }: ViewProps) {
  const [id] = rest;
  return id === undefined ? <RunTable /> : <Lazy key={id} name="run" what="the run" load={load} props={{ id }} />;
}
