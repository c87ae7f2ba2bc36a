/* Promoting: what, where to, under which conditions; then the verdict with its numbers. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";

import { act, ApiError, explain, finished, get, query } from "../../api/client";
import { useDocument } from "../../api/document";
import type { Operation, Page, Run } from "../../api/types";
import { go, href } from "../../router";
import { Button, Segments } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { number } from "../../ui/format";
import type { ModelDocument, Stage, Verdict, Version } from "./types";
import { lastVerdict } from "./types";
import { VerdictView } from "./verdict";

interface PromoteProps {
  model: string; // "" where its name is asked for
  what: string; // "" where a run is asked for
  current: Version | null;
  onClose: () => void;
}

type Released = Version & { verdict: Verdict | null };
type Outcome = { done: true; stage: Stage; verdict: Verdict | null } | { done: false; message: string; verdict: Verdict | null };

export function PromoteDialog({ model, what, current, onClose }: PromoteProps): JSX.Element {
  const name = useSignal(model);
  const source = useSignal(what);
  const to = useSignal<"staging" | "production">(what === "" || current === null ? "staging" : "production");
  const busy = useSignal(false);
  const outcome = useSignal<Outcome | null>(null);

  const promote = async (form: HTMLFormElement): Promise<void> => {
    const given = new FormData(form);
    const value = (field: string): number | null => (String(given.get(field) ?? "").trim() === "" ? null : Number(given.get(field)));
    const settings = Object.fromEntries(["min_return", "max_std", "worst_return", "margin", "budget"].flatMap((field) => (value(field) === null ? [] : [[field, value(field)]])));
    const force = String(given.get("force") ?? "").trim();
    busy.value = true;
    try {
      const body = { what: source.value, to: to.value, checkpoint: String(given.get("checkpoint") ?? "last"), settings, ...(force ? { force } : {}), ...(current && to.value === "production" ? { if_current: current.version } : {}) };
      const operation = await act<Operation<Released>>("POST", `/models/${encodeURIComponent(name.value)}/promote`, body);
      const version = await finished<Released>(operation);
      outcome.value = { done: true, stage: to.value, verdict: version.verdict };
    } catch (error) {
      outcome.value = { done: false, message: explain(error), verdict: await refusedBy(error, name.value, source.value) };
    } finally {
      busy.value = false;
    }
  };

  if (outcome.value !== null) return <Result outcome={outcome.value} name={name.value} onBack={() => (outcome.value = null)} onClose={onClose} />;
  const isVersion = what.includes(":"); // MODEL:3; else the beginning of a run, which may be changed
  return (
    <Dialog title={isVersion ? `Promote ${what}` : "Promote a run"} wide onClose={onClose}>
      <form
        class="promote"
        onSubmit={(event) => {
          event.preventDefault();
          void promote(event.currentTarget);
        }}
      >
        {!isVersion && <RunField value={source.value} onInput={(value) => (source.value = value)} />}
        {model === "" && (
          <label class="labelled">
            <span>Model</span>
            <input class="field" required pattern="[a-z0-9][a-z0-9_.\-]*" title="1 to 64 of a-z 0-9 _ . - beginning with a letter or digit" placeholder="cartpole" value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
          </label>
        )}
        {!isVersion && (
          <label class="labelled">
            <span>Checkpoint</span>
            <select class="field" name="checkpoint">
              <option value="last">last</option>
              <option value="best">best</option>
            </select>
          </label>
        )}
        <div class="labelled">
          <span>Stage</span>
          <Segments label="Stage" value={to.value} options={[["staging", "Staging"], ["production", "Production"]]} onChange={(stage) => (to.value = stage)} />
        </div>
        {to.value === "production" ? (
          <>
            <p class="soft">
              {current
                ? `It plays against version ${current.version} on the same fresh seeds, and replaces it only if it is better by the margin.`
                : "Nothing is in production yet: only the conditions below decide."}
            </p>
            <div class="conditions">
              <NumberField name="min_return" label="Lower bound of its mean return at least" />
              <NumberField name="worst_return" label="Mean of its worst tenth at least" />
              <NumberField name="max_std" label="Spread of its returns at most" min={0} />
              <NumberField name="margin" label="Better by at least" placeholder="0" />
              <NumberField name="budget" label="Episodes of each side at most" placeholder="160" min={20} />
              <label class="labelled">
                <span>Without a comparison, because</span>
                <input class="field" name="force" placeholder="reason, kept in the audit log" />
              </label>
            </div>
          </>
        ) : (
          <p class="soft">Staging has no conditions: a version waits there to be tried.</p>
        )}
        <div class="choices">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={busy.value || source.value === "" || name.value === ""}>
            {busy.value ? (to.value === "production" ? "Playing the comparison …" : "Promoting …") : `Promote to ${to.value}`}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** A refusal keeps its numbers in the audit log. */
async function refusedBy(error: unknown, model: string, what: string): Promise<Verdict | null> {
  if (!(error instanceof ApiError) || !/not promoted/.test(error.message)) return null;
  try {
    const document = await get<ModelDocument>(`/models/${encodeURIComponent(model)}`);
    const newest = Math.max(...document.versions.map((version) => version.version));
    const version = what.startsWith(`${model}:`) ? Number(what.slice(model.length + 1)) : newest;
    return lastVerdict(document.history, version);
  } catch {
    return null; // the message alone says why
  }
}

function Result({ outcome, name, onBack, onClose }: { outcome: Outcome; name: string; onBack: () => void; onClose: () => void }): JSX.Element {
  const close = (): void => {
    onClose();
    if (outcome.done) go(href(["registry", name]));
  };
  return (
    <Dialog title={outcome.done ? `${name} is in ${outcome.stage}` : "Not promoted"} wide onClose={close}>
      {outcome.verdict === null ? <p class={outcome.done ? "soft" : "wrong"}>{outcome.done ? "It was put there without a comparison." : outcome.message}</p> : <VerdictView verdict={outcome.verdict} />}
      <div class="choices">
        {!outcome.done && <Button onClick={onBack}>Change the conditions</Button>}
        <Button kind="primary" onClick={close}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

const CHOICES = 12;

function RunField({ value, onInput }: { value: string; onInput: (value: string) => void }): JSX.Element {
  const runs = useDocument<Page<Run>>(`/runs${query({ q: value.length > 12 ? "" : value, state: "COMPLETED", limit: CHOICES, sort: "-id" })}`);
  return (
    <label class="labelled">
      <span>Run</span>
      <input class="field" required list="promote-runs" placeholder="id, handle or name" value={value} onInput={(event) => onInput(event.currentTarget.value)} />
      <datalist id="promote-runs">
        {(runs.data?.items ?? []).map((run) => (
          <option key={run.id} value={run.id}>
            {run.name} seed {run.seed}, {number(run.eval_return)}
          </option>
        ))}
      </datalist>
    </label>
  );
}

function NumberField({ name, label, placeholder, min }: { name: string; label: string; placeholder?: string; min?: number }): JSX.Element {
  return (
    <label class="labelled">
      <span>{label}</span>
      <input class="field" name={name} type="number" step="any" min={min} placeholder={placeholder ?? "not asked for"} />
    </label>
  );
}
