/** Registry: models, which version is in which stage, and the decisions about them with their numbers. */
import type { JSX } from "preact";

import { mayAct } from "../../api/client";
import { useDocument } from "../../api/document";
import { useKeys } from "../../keys";
import { href, param, setParams } from "../../router";
import { Blank, Failed, Loading } from "../../ui/blank";
import { Button } from "../../ui/button";
import { ago } from "../../ui/format";
import { Heading } from "../../ui/heading";
import type { ViewProps } from "../../views";
import { One } from "./one";
import { PromoteDialog } from "./promote";
import "./registry.css";
import { StageChip } from "./stage";
import type { Version } from "./types";

export default function Registry({ rest }: ViewProps): JSX.Element {
  const [name] = rest;
  return name ? <One name={name} /> : <List />;
}

function List(): JSX.Element {
  const models = useDocument<{ versions: Version[] }>("/models", ({ topic }) => topic === "model");
  useKeys("Registry", { p: ["Promote a run", () => mayAct() && setParams({ promote: "1" })] });
  const byName = new Map<string, Version[]>();
  for (const version of models.data?.versions ?? []) byName.set(version.model, [...(byName.get(version.model) ?? []), version]);
  return (
    <>
      <Heading title="Registry" sub={byName.size > 0 ? `${byName.size} ${byName.size === 1 ? "model" : "models"}` : undefined}>
        {mayAct() && (
          <Button kind="primary" icon="up" label="Promote a run (p)" onClick={() => setParams({ promote: "1" })}>
            Promote a run
          </Button>
        )}
      </Heading>
      <div class="body">
        {models.error && <Failed error={models.error} retry={models.reload} />}
        {models.data === null && !models.error && <Loading what="the models" />}
        {models.data !== null && byName.size === 0 && (
          <Blank title="No models yet">
            <p>
              A model is a name for versions of trained policies. The first one is made by promoting a run, here or with <code>rlctl promote RUN --model NAME</code>.
            </p>
            <a class="button" href={href(["runs"], { state: "completed" })}>
              Look at completed runs
            </a>
          </Blank>
        )}
        {byName.size > 0 && (
          <ul class="models">
            {[...byName].map(([name, versions]) => (
              <li key={name}>
                <Card name={name} versions={versions} />
              </li>
            ))}
          </ul>
        )}
      </div>
      {param("promote") && mayAct() && <PromoteDialog model="" what={param("run")} current={null} onClose={() => setParams({ promote: "", run: "" })} />}
    </>
  );
}

function Card({ name, versions }: { name: string; versions: readonly Version[] }): JSX.Element {
  const inStage = (stage: string): Version | undefined => versions.find((version) => version.stage === stage);
  const newest = versions.reduce((one, other) => (other.version > one.version ? other : one));
  return (
    <a class="panel model-card" href={href(["registry", name])}>
      <h2>{name}</h2>
      <span class="soft">
        {versions.length} {versions.length === 1 ? "version" : "versions"}, newest {ago(newest.created_at)}
      </span>
      <span class="stages">
        {(["production", "staging"] as const).map((stage) => {
          const version = inStage(stage);
          return (
            <span key={stage}>
              <StageChip stage={stage} /> {version ? `version ${version.version}` : <span class="faint">nothing</span>}
            </span>
          );
        })}
      </span>
    </a>
  );
}
