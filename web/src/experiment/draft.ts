/* The experiment or sweep that is being written: its text, what the text says, and what the server thinks of it.

   The text is the truth. The form writes into it and reads from it, and it is part of the address, so that a draft can
   be sent to a colleague and survives a reload. */

import { batch, computed, signal } from "@preact/signals";

import { act, explain, get } from "../api/client";
import type { FieldProblem } from "../api/types";
import { param, setParams } from "../router";
import { dotted, isSection, valueAt, type Json, type Path } from "./fields";
import { pack, unpack } from "./packed";
import { read, withValue, type Reading } from "./text";

const CHECK_MS = 220;
const ADDRESS_MS = 500;

/** What is written: where it is checked and launched, and the preset that it begins with. */
export interface Kind {
  route: "/experiments" | "/sweeps";
  preset: string;
}

export const EXPERIMENT: Kind = { route: "/experiments", preset: "ppo/quickstart" };
export const SWEEP: Kind = { route: "/sweeps", preset: "sweep/ppo_cartpole" };

export interface Checked {
  ok: boolean;
  problems: FieldProblem[];
}

export class Draft {
  constructor(private readonly kind: Kind) {}

  readonly text = signal("");
  /** What the address began with: differs from the text once somebody has edited. */
  readonly origin = signal("");
  readonly loading = signal(true);
  readonly failure = signal("");
  readonly checking = signal(false);
  readonly checked = signal<Checked | null>(null);
  readonly reading = computed<Reading>(() => read(this.text.value));
  /** The last text that could be read: the form keeps it while the text is not YAML. */
  readonly data = computed<Json>(() => {
    const { data, problem } = this.reading.value;
    if (problem === null) this.lastData = data;
    return this.lastData;
  });
  readonly algo = computed(() => {
    const value = valueAt(this.data.value, ["policy", "algo"]);
    return typeof value === "string" ? value : "";
  });
  readonly edited = computed(() => this.text.value !== this.origin.value);
  readonly problems = computed<FieldProblem[]>(() => {
    const { problem } = this.reading.value;
    if (problem !== null) return [{ field: "", message: problem.message, line: problem.line, column: problem.column }];
    return this.checked.value?.problems ?? [];
  });

  /** What the address holds of this draft: another one means that somebody has come from elsewhere. */
  packed = "";
  private touched = false; // somebody has written while the beginning was being loaded
  private lastData: Json = {};
  private timer: ReturnType<typeof setTimeout> | undefined;
  private addressTimer: ReturnType<typeof setTimeout> | undefined;
  private version = 0;

  /** From the address: a draft, the config of a run, or a preset. */
  async open(): Promise<void> {
    const [preset, from, packed] = [param("preset"), param("from"), param("draft")];
    this.packed = packed;
    this.touched = false;
    this.loading.value = true;
    this.failure.value = "";
    try {
      const origin = from ? await configOf(from) : await presetText(preset || this.kind.preset);
      const text = packed ? await unpack(packed) : origin;
      batch(() => {
        this.origin.value = origin;
        if (!this.touched) this.text.value = text;
      });
      this.checkSoon(0);
    } catch (error) {
      this.failure.value = explain(error);
    } finally {
      this.loading.value = false;
    }
  }

  write(text: string): void {
    this.touched = true;
    this.text.value = text;
    this.checkSoon(CHECK_MS);
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => void this.keepInAddress(), ADDRESS_MS);
  }

  set(path: Path, value: Json | undefined): void {
    this.write(withValue(this.text.value, path, value));
  }

  problemsAt(path: Path): FieldProblem[] {
    const field = dotted(path);
    return this.problems.value.filter((problem) => problem.field === field);
  }

  close(): void {
    clearTimeout(this.timer);
    clearTimeout(this.addressTimer);
    this.version++;
  }

  private checkSoon(delay: number): void {
    clearTimeout(this.timer);
    this.checking.value = true;
    const version = ++this.version;
    this.timer = setTimeout(() => void this.check(version), delay);
  }

  private async check(version: number): Promise<void> {
    if (this.reading.value.problem !== null) {
      this.checking.value = false;
      return;
    }
    try {
      const answer = await act<Checked>("POST", this.kind.route, { yaml: this.text.value, validate_only: true });
      if (version !== this.version) return; // the text has changed since
      this.checked.value = answer;
      this.failure.value = "";
    } catch (error) {
      if (version === this.version) this.failure.value = explain(error);
    } finally {
      if (version === this.version) this.checking.value = false;
    }
  }

  private async keepInAddress(): Promise<void> {
    const text = this.text.value;
    const packed = this.edited.value ? await pack(text) : "";
    if (text !== this.text.value) return;
    this.packed = packed;
    setParams({ draft: packed });
  }
}

async function presetText(name: string): Promise<string> {
  return (await get<{ yaml: string }>(`/presets/${name.split("/").map(encodeURIComponent).join("/")}`)).yaml;
}

async function configOf(run: string): Promise<string> {
  return (await get<{ yaml: string }>(`/runs/${encodeURIComponent(run)}/config`)).yaml;
}

/** How many settings of a section are written in the text. */
export function written(value: Json | undefined): number {
  if (!isSection(value)) return value === undefined ? 0 : 1;
  return Object.values(value).reduce<number>((sum, inner) => sum + written(inner), 0);
}
