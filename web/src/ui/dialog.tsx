import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "./button";

/** A native modal dialog: the browser keeps the focus inside and gives it back. */
export function Dialog({ title, wide, onClose, children }: { title: string; wide?: boolean; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const shown = element.current;
    shown?.showModal();
    // The browser takes the first control, which then looks as if it were chosen.
    if (shown && !shown.querySelector("[autofocus]")) shown.focus();
  }, []);
  return (
    <dialog
      ref={element}
      tabIndex={-1}
      class={wide ? "wide" : ""}
      aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => event.target === element.current && onClose()}
    >
      <div class="inside">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  detail: ComponentChildren;
  confirm: string;
  danger?: boolean;
  /** Asks for a line of text, such as the reason of a rollback. */
  input?: { label: string; value?: string; required?: boolean; suggestions?: string[] };
}

const asked = signal<(Question & { answer: (value: string | null) => void }) | null>(null);

/** Resolves to the text that was typed ("" where none is asked for), or to null for no. */
export function ask(question: Question): Promise<string | null> {
  return new Promise((resolve) => {
    asked.value = {
      ...question,
      answer: (value) => {
        asked.value = null;
        resolve(value);
      },
    };
  });
}

export const confirm = async (question: Omit<Question, "input">): Promise<boolean> => (await ask(question)) !== null;

export function AskDialog() {
  const question = asked.value;
  const field = useRef<HTMLInputElement>(null);
  if (!question) return null;
  const { title, detail, confirm: yes, danger, input, answer } = question;
  return (
    <Dialog title={title} onClose={() => answer(null)}>
      <form
        style="padding:0"
        onSubmit={(event) => {
          event.preventDefault();
          answer(field.current?.value.trim() ?? "");
        }}
      >
        <div class="soft">{detail}</div>
        {input && (
          <label class="labelled">
            <span>{input.label}</span>
            <input ref={field} class="field" autofocus required={input.required} value={input.value ?? ""} list={input.suggestions && "ask-suggestions"} />
            {input.suggestions && (
              <datalist id="ask-suggestions">
                {input.suggestions.map((text) => (
                  <option key={text} value={text} />
                ))}
              </datalist>
            )}
          </label>
        )}
        <div class="choices">
          <Button onClick={() => answer(null)}>Cancel</Button>
          <button type="submit" class={`button primary ${danger ? "danger" : ""}`} autofocus={!input}>
            {yes}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
