import { signal } from "@preact/signals";
import { explain } from "../api/client";
import { Button } from "./button";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad" | "idle";
  action?: { label: string; run: () => void } | undefined;
  /** Another one with this subject takes its place, such as the next count of what is under way. */
  subject?: string | undefined;
}

const toasts = signal<Toast[]>([]);
let next = 1;
const SHOWN_MS = { good: 5_000, idle: 5_000, bad: 12_000 };

export function toast(text: string, tone: Toast["tone"] = "good", { action, subject }: Pick<Toast, "action" | "subject"> = {}): void {
  const id = next++;
  // The same message again replaces the older one instead of standing below it.
  const others = toasts.value.filter((other) => other.text !== text && (subject === undefined || other.subject !== subject));
  toasts.value = [...others.slice(-3), { id, text, tone, action, subject }];
  setTimeout(() => dismiss(id), SHOWN_MS[tone]);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Does something and says how it went; false if it failed. */
export async function attempt(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
    if (done) toast(done);
    return true;
  } catch (error) {
    toast(explain(error), "bad");
    return false;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, tone, action }) => (
        <div class={`toast tone-${tone}`} key={id}>
          <span class="text">{text}</span>
          {action && (
            <Button kind="quiet" onClick={() => (action.run(), dismiss(id))}>
              {action.label}
            </Button>
          )}
          <Button kind="quiet" icon="close" label="Dismiss" onClick={() => dismiss(id)} />
        </div>
      ))}
    </div>
  );
}
