/* One model: what is in production, its versions, the numbers behind each decision. */
import type { JSX } from "preact";

import { act, API, mayAct } from "../../api/client";
import { useDocument } from "../../api/document";
import { useKeys } from "../../keys";
import { href, param, setParams } from "../../router";
import { Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { ask } from "../../ui/dialog";
import { ago, clock, count, measured } from "../../ui/format";
import { Heading } from "../../ui/heading";
import { Icon } from "../../ui/icon";
import { attempt } from "../../ui/toast";
import { PromoteDialog } from "./promote";
import { StageChip } from "./stage";
import { lastVerdict, verdictOf, type Decision, type ModelDocument, type Version } from "./types";
import { VerdictView } from "./verdict";

export function One({ name }: { name: string }): JSX.Element {
  const path = `/models/${encodeURIComponent(name)}`;
  const model = useDocument<ModelDocument>(path, ({ topic, data }) => topic === "model" && (data["name"] === name || data["model"] === name));
  const back = (
    <a href={href(["registry"])} class="button quiet icon" aria-label="All models" title="All models">
      <Icon name="left" />
    </a>
  );
  if (model.error && model.data === null) {
    return (
      <>
        <Heading title={name} before={back} />
        <Failed error={model.error} retry={model.reload}>
          <a class="button" href={href(["registry"])}>
            All models
          </a>
        </Failed>
      </>
    );
  }
  if (model.data === null) return <Loading what={`model ${name}`} />;
  return <Shown model={model.data} name={name} path={path} back={back} reload={model.reload} />;
}

interface ShownProps {
  model: ModelDocument;
  name: string;
  path: string;
  back: JSX.Element;
  reload: () => void;
}

function Shown({ model, name, path, back, reload }: ShownProps): JSX.Element {
  const versions = [...model.versions].sort((one, other) => other.version - one.version);
  const history = [...model.history].sort((one, other) => other.seq - one.seq);
  const production = versions.find((version) => version.stage === "production");
  const chosen = versions.find((version) => String(version.version) === param("version")) ?? versions[0];
  const { before } = model; // what a rollback brings back
  const choose = (step: number): void => {
    const place = chosen === undefined ? 0 : versions.indexOf(chosen) + step;
    setParams({ version: versions[Math.max(0, Math.min(versions.length - 1, place))]?.version });
  };
  const rollback = async (): Promise<void> => {
    const detail = `Version ${before} goes back into production in place of version ${production?.version}.`;
    const reason = await ask({ title: `Roll ${name} back?`, detail, confirm: "Roll back", danger: true, input: { label: "Why (kept in the audit log)" } });
    if (reason === null) return;
    await attempt(() => act("POST", `${path}/rollback`, { reason, ...(production ? { if_current: production.version } : {}) }), `${name} is rolled back.`);
    reload();
  };
  const isAble = mayAct();
  const isReversible = isAble && before !== null;
  useKeys("Registry", {
    j: ["Next version", () => choose(1)],
    k: ["Previous version", () => choose(-1)],
    p: ["Promote the version", () => isAble && chosen && setParams({ promote: chosen.version })],
    b: ["Roll back", () => isReversible && void rollback()],
  });
  return (
    <>
      <Heading title={name} before={back} sub={production ? `version ${production.version} is in production` : "nothing is in production"}>
        {isAble && production && (
          <Button icon="reset" disabled={!isReversible} label={isReversible ? `Put version ${before} back into production (b)` : "No other version was in production before"} onClick={() => void rollback()}>
            Roll back
          </Button>
        )}
        {isAble && (
          <Button icon="up" kind="primary" onClick={() => setParams({ promote: "run" })}>
            New version from a run
          </Button>
        )}
      </Heading>
      <div class="body registry">
        <section class="panel">
          <header>
            <h2>Versions</h2>
          </header>
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Versions">
            <Versions versions={versions} history={history} chosen={chosen} />
          </div>
        </section>
        {chosen && <Chosen version={chosen} history={history} path={path} production={production} />}
        <Audit history={history} />
      </div>
      {param("promote") && isAble && (
        <PromoteDialog model={name} what={param("promote") === "run" ? "" : `${name}:${param("promote")}`} current={production ?? null} onClose={() => (setParams({ promote: "" }), reload())} />
      )}
    </>
  );
}

function Versions({ versions, history, chosen }: { versions: readonly Version[]; history: readonly Decision[]; chosen: Version | undefined }): JSX.Element {
  return (
    <table class="plain versions">
      <thead>
        <tr>
          <th>Version</th>
          <th>Stage</th>
          <th class="number">Mean return</th>
          <th>Judged</th>
          <th class="number">Steps</th>
          <th>From run</th>
          <th>Created</th>
        </tr>
      </thead>
      <tbody>
        {versions.map((version) => {
          const verdict = lastVerdict(history, version.version);
          return (
            <tr key={version.version} class={version === chosen ? "chosen" : ""} onClick={() => setParams({ version: version.version })}>
              <th scope="row">
                <button type="button" class="link" aria-pressed={version === chosen}>
                  {version.name}
                </button>
              </th>
              <td>
                <StageChip stage={version.stage} />
              </td>
              <td class="number">{measured(verdict?.candidate.mean)}</td>
              <td>{verdict === null ? <span class="faint">not judged</span> : <span class={`state tone-${verdict.promote ? "good" : "bad"}`}>{verdict.promote ? "promoted" : "refused"}</span>}</td>
              <td class="number">{count(version.step)}</td>
              <td>{version.run_id ? <a href={href(["runs", version.run_id])}>{version.run_id.slice(-4)}</a> : <span class="faint">imported</span>}</td>
              <td class="soft" title={clock(version.created_at)}>
                {ago(version.created_at)}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Chosen({ version, history, path, production }: { version: Version; history: readonly Decision[]; path: string; production: Version | undefined }): JSX.Element {
  const verdict = lastVerdict(history, version.version);
  return (
    <section class="panel" aria-label={version.name}>
      <header>
        <h2>{version.name}</h2>
        <StageChip stage={version.stage} />
        <div class="actions">
          <a class="button" href={`${API}${path}/versions/${version.version}/bundle`} download={`${version.model}-${version.version}.tar`}>
            <Icon name="download" /> Bundle
          </a>
          {mayAct() && version.stage !== "production" && (
            <Button icon="up" label="Promote (p)" onClick={() => setParams({ promote: version.version })}>
              Promote
            </Button>
          )}
        </div>
      </header>
      <div class="inside">
        <dl class="facts">
          <dt>Digest</dt>
          <dd class="mono">{version.digest}</dd>
          <dt>Weights</dt>
          <dd>
            step {count(version.step)} of {version.run_id ? <a href={href(["runs", version.run_id])}>run {version.run_id}</a> : "an imported bundle"}
          </dd>
        </dl>
        {verdict === null ? (
          <p class="soft">
            {version.stage === "production" && production ? "It went into production without a comparison." : "It has not been compared with what is in production: promote it to production to play the comparison."}
          </p>
        ) : (
          <VerdictView verdict={verdict} />
        )}
      </div>
    </section>
  );
}

const WORDS: Record<string, string> = { register: "registered", promote: "promoted to", refuse: "refused, stays in", rollback: "rolled back to", force: "forced into", demote: "moved to", archive: "moved to" };

function Audit({ history }: { history: readonly Decision[] }): JSX.Element {
  return (
    <section class="panel">
      <header>
        <h2>Audit log</h2>
        <span class="faint">newest first; no entry is ever removed</span>
      </header>
      <ol class="audit">
        {history.map((decision) => {
          const verdict = verdictOf(decision);
          return (
            <li key={decision.seq}>
              <time class="faint" dateTime={decision.at} title={clock(decision.at)}>
                {ago(decision.at)}
              </time>
              <div>
                <a href={href(["registry", decision.model], { version: decision.version })}>
                  {decision.model}:{decision.version}
                </a>{" "}
                {WORDS[decision.kind] ?? decision.kind} {decision.kind !== "register" && <StageChip stage={decision.stage} />} <span class="faint">by {decision.actor}</span>
                {decision.reason && <p class="soft">{decision.reason}</p>}
                {verdict !== null && (
                  <details>
                    <summary>The numbers</summary>
                    <VerdictView verdict={verdict} />
                  </details>
                )}
              </div>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
