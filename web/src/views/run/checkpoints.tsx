import { mayAct } from "../../api/client";
import type { Artifact, RunDetail } from "../../api/types";
import { Blank } from "../../ui/blank";
import { Button } from "../../ui/button";
import { bytes, count } from "../../ui/format";
import { exportCheckpoint, forkRun, isResumable, resumeRun } from "./actions";
import { artifactUrl } from "./videos";

export function CheckpointsTab({ run, artifacts }: { run: RunDetail; artifacts: readonly Artifact[] }) {
  if (!run.checkpoints.length)
    return (
      <Blank title="No checkpoint yet">
        <p>The first one is saved at the end of an epoch, or when the run is stopped.</p>
      </Blank>
    );
  return (
    <>
      <section class="panel gap-above scroll-x">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col" class="number">
                Step
              </th>
              <th scope="col" class="number hide-narrow">
                Epoch
              </th>
              <th scope="col">Which</th>
              <th scope="col" class="hide-narrow">
                Resumes
              </th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col" class="hide-narrow">
                State hash
              </th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {run.checkpoints.toReversed().map((one) => {
              const { tags } = one;
              return (
                <tr key={one.step}>
                  <td class="number">{count(one.step)}</td>
                  <td class="number hide-narrow">{one.epoch}</td>
                  <td>
                    {tags.map((tag) => (
                      <span key={tag} class={`chip ${tag === "best" ? "tone-good" : ""}`} style="margin-right:4px">
                        {tag}
                      </span>
                    ))}
                  </td>
                  <td class="hide-narrow">{one.exact ? "to the bit" : <span title={run.exact_reason}>not exactly</span>}</td>
                  <td class="number" style="white-space:nowrap">
                    {bytes(one.size)}
                  </td>
                  <td class="mono faint hide-narrow">{one.state_hash.slice(0, 12)}</td>
                  <td style="text-align:right; white-space:nowrap">
                    {mayAct() && (
                      <>
                        {tags.includes("last") && isResumable(run) && (
                          <Button kind="quiet" icon="play" label="Resume from here" onClick={() => void resumeRun(run)}>
                            <span class="hide-narrow">Resume</span>
                          </Button>
                        )}
                        <Button kind="quiet" icon="fork" label={`Fork from step ${count(one.step)}`} onClick={() => void forkRun(run, one.step)}>
                          <span class="hide-narrow">Fork</span>
                        </Button>
                        <Button kind="quiet" icon="download" label={`Export step ${count(one.step)}`} onClick={() => void exportCheckpoint(run, String(one.step))}>
                          <span class="hide-narrow">Export</span>
                        </Button>
                      </>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </section>
      {artifacts.length > 0 && (
        <section class="panel gap-above scroll-x">
          <header>
            <h2>Files</h2>
          </header>
          <table class="plain">
            <tbody>
              {artifacts.map((file) => (
                <tr key={file.name}>
                  <td>
                    <a href={artifactUrl(run.id, file.name)} download>
                      {file.name}
                    </a>
                  </td>
                  <td class="faint">{file.type}</td>
                  <td class="number">{bytes(file.size)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}
