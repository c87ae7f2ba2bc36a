import { query } from "../../api/client";
import { useDocument } from "../../api/document";
import type { ConfigAnswer, RunDetail } from "../../api/types";
import type { Json } from "../../experiment/fields";
import { flow } from "../../experiment/values";
import { href, param, setParams } from "../../router";
import { Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { toast } from "../../ui/toast";

/** As it stands in a file; a setting that only the other run has is none here. */
const setting = (value: unknown): string => (value === null || value === undefined ? "–" : flow(value as Json));

const LINE = /^(\s*(?:- )?)([\w.-]+):(.*)$/;

/** The configuration as it ran, what differs from the parent (or from `?against=`) beside it. */
/** Says of each line in turn which field it is: `lr` below `train` is `train.lr`. */
function fields(): (indent: number, key: string) => string {
  const above: { indent: number; key: string }[] = [];
  return (indent, key) => {
    while ((above.at(-1)?.indent ?? -1) >= indent) above.pop();
    above.push({ indent, key });
    return above.map((one) => one.key).join(".");
  };
}

export function ConfigTab({ run }: { run: RunDetail }) {
  const against = param("against") || (run.parent_id ? "parent" : "");
  const { data, error, reload } = useDocument<ConfigAnswer>(`/runs/${run.id}/config${query({ against })}`);
  if (!data) return error ? <Failed error={error} retry={reload} /> : <Loading what="the configuration" />;
  const changed = new Set(data.changes?.map((change) => change.field));
  const fieldOf = fields();
  return (
    <div class="config-split">
      <section class="panel">
        <header>
          <h2>Configuration</h2>
          <span class="faint mono">{run.config_hash.slice(0, 12)}</span>
          <span class="actions">
            <Button kind="quiet" icon="copy" label="Copy the YAML" onClick={() => void navigator.clipboard?.writeText(data.yaml).then(() => toast("Copied"))} />
          </span>
        </header>
        <pre class="inside yaml" tabIndex={0} aria-label="Configuration as YAML">
          {data.yaml.split("\n").map((line, index) => {
            const match = LINE.exec(line);
            if (!match) return `${line}\n`;
            const [, indent = "", key = "", value] = match;
            return (
              <span key={index} class={changed.has(fieldOf(indent.length, key)) ? "changed" : ""}>
                {indent}
                <i>{key}</i>:{value}
                {"\n"}
              </span>
            );
          })}
        </pre>
      </section>
      <section class="panel config-changes">
        <header>
          <h2>Changes</h2>
          <span class="faint">{against === "parent" ? "from the run it was forked from" : against ? `from ${against}` : "from no other run"}</span>
        </header>
        <div class="inside">
          <form
            class="toolbar"
            onSubmit={(event) => {
              event.preventDefault();
              setParams({ against: new FormData(event.currentTarget).get("against")?.toString() });
            }}
          >
            <input class="field grow" name="against" placeholder="Another run: handle or name" aria-label="Run to compare the configuration with" value={param("against")} />
            <Button type="submit">Compare</Button>
          </form>
          {data.changes?.length === 0 && <p class="soft gap-above">No field differs.</p>}
          {!data.changes && !against && <p class="soft gap-above">This run has no parent. Name another run to see how they differ.</p>}
          {data.changes && data.changes.length > 0 && (
            <table class="plain gap-above">
              <thead>
                <tr>
                  <th scope="col">Field</th>
                  <th scope="col">Before</th>
                  <th scope="col">Here</th>
                </tr>
              </thead>
              <tbody>
                {data.changes.map((change) => (
                  <tr key={change.field}>
                    <td class="mono">{change.field}</td>
                    <td class="soft mono">{setting(change.before)}</td>
                    <td>
                      <b class="mono">{setting(change.after)}</b>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {run.parent_id && (
            <p class="gap-above">
              <a href={href(["runs", run.parent_id])}>Open the parent</a>
            </p>
          )}
        </div>
      </section>
    </div>
  );
}
