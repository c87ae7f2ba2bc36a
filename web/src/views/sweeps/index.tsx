/** Sweeps: the list, one of them in pictures, and a new one from YAML. */
import { lazy, Suspense } from "preact/compat";
import type { JSX } from "preact";

import { mayAct } from "../../api/client";
import { useDocument } from "../../api/document";
import { useKeys } from "../../keys";
import { go, href, param } from "../../router";
import { Blank, Failed, Loading } from "../../ui/blank";
import { ago, measured } from "../../ui/format";
import { Heading } from "../../ui/heading";
import { Icon } from "../../ui/icon";
import type { ViewProps } from "../../views";
import "./sweeps.css";
import { One } from "./one";
import { SweepState } from "./state";
import type { SweepRow } from "./types";

const Launch = lazy(() => import("./launch")); // brings the YAML reader, which looking at sweeps does not need

export default function Sweeps({ rest }: ViewProps): JSX.Element {
  const [name] = rest;
  if (name) return <One name={name} />;
  if (param("new")) {
    return (
      <Suspense fallback={<Loading what="the form" />}>
        <Launch />
      </Suspense>
    );
  }
  return <List />;
}

function List(): JSX.Element {
  const sweeps = useDocument<{ items: SweepRow[] }>("/sweeps", ({ topic }) => topic === "sweep");
  const launch = href(["sweeps"], { new: 1 });
  useKeys("Sweeps", { n: ["New sweep", () => go(launch)] });
  return (
    <>
      <Heading title="Sweeps" sub={sweeps.data?.items.length}>
        {mayAct() && (
          <a class="button primary" href={launch}>
            <Icon name="add" /> New sweep
          </a>
        )}
      </Heading>
      <div class="body">
        {sweeps.error && <Failed error={sweeps.error} retry={sweeps.reload} />}
        {sweeps.data === null && !sweeps.error && <Loading what="the sweeps" />}
        {sweeps.data?.items.length === 0 && (
          <Blank title="No sweeps yet">
            <p>A sweep tries many settings of an experiment, and prunes the trials that do badly.</p>
            <a class="button" href={launch}>
              Start from a ready-made sweep
            </a>
          </Blank>
        )}
        {sweeps.data !== null && sweeps.data.items.length > 0 && (
          <section class="panel scroll-x" tabIndex={0} aria-label="Sweeps">
            <table class="plain sweep-list">
              <thead>
                <tr>
                  <th>Sweep</th>
                  <th>State</th>
                  <th class="number">Trials</th>
                  <th class="number">Best</th>
                  <th>Metric</th>
                  <th>Created</th>
                </tr>
              </thead>
              <tbody>
                {sweeps.data.items.map((sweep) => (
                  <tr key={sweep.name}>
                    <th scope="row">
                      <a href={href(["sweeps", sweep.name])}>{sweep.name}</a>
                    </th>
                    <td>
                      <SweepState state={sweep.state} />
                    </td>
                    <td class="number">{sweep.planned ? `${sweep.trials} of ${sweep.planned}` : sweep.trials}</td>
                    <td class="number">{measured(sweep.best_value)}</td>
                    <td class="soft">{sweep.metric}</td>
                    <td class="soft">{sweep.created_at && ago(sweep.created_at)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
      </div>
    </>
  );
}
