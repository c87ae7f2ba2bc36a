/** `#/runs` is the table of all runs, `#/runs/ID` one of them. */
import { Run } from "../run";
import type { ViewProps } from "../../views";
import { RunTable } from "./table";

export default function Runs({ rest }: ViewProps) {
  const [id] = rest;
  return id === undefined ? <RunTable /> : <Run key={id} id={id} />;
}
