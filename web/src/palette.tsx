/** `:` or Ctrl+K: goes to a view or to a run by a few letters of it. */
import { signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { get, query } from "./api/client";
import type { Page, Run } from "./api/types";
import { go, href } from "./router";
import { toggleTheme } from "./theme";
import { VIEWS } from "./views";

export const paletteOpen = signal(false);

interface Choice {
  text: string;
  hint: string;
  run: () => void;
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  paletteOpen.value = !paletteOpen.value;
});

export function Palette() {
  return paletteOpen.value ? <OpenPalette /> : null;
}

function OpenPalette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const typed = useSignal("");
  const runs = useSignal<Run[]>([]);
  const at = useSignal(0);
  // Before the next paint: what is typed right after the key belongs into the field.
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    at.value = 0;
    if (typed.value.length < 2) {
      runs.value = [];
      return;
    }
    const timer = setTimeout(() => {
      get<Page<Run>>(`/runs${query({ q: typed.value, limit: 8 })}`).then(
        (page) => (runs.value = page.items),
        () => (runs.value = []),
      );
    }, 120);
    return () => clearTimeout(timer);
  }, [typed.value]);

  const fixed: Choice[] = [
    ...VIEWS.map((view) => ({ text: view.title, hint: `g ${view.key}`, run: () => go(href([view.name])) })),
    { text: "Light or dark", hint: "t", run: toggleTheme },
  ];
  const wanted = typed.value.toLowerCase();
  const choices: Choice[] = [
    ...fixed.filter((choice) => choice.text.toLowerCase().includes(wanted)),
    ...runs.value.map((run) => ({ text: `${run.name} ${run.handle}`, hint: `${run.algo} on ${run.env_id}`, run: () => go(href(["runs", run.id])) })),
  ];
  const take = (choice: Choice | undefined): void => {
    if (!choice) return;
    paletteOpen.value = false;
    choice.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter") take(choices[at.value]);
    else if (event.key === "ArrowDown") at.value = Math.min(at.value + 1, choices.length - 1);
    else if (event.key === "ArrowUp") at.value = Math.max(at.value - 1, 0);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Go to" onClose={() => (paletteOpen.value = false)} onClick={(event) => event.target === dialog.current && (paletteOpen.value = false)}>
      <input
        autofocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-choices"
        aria-activedescendant={`palette-${at.value}`}
        aria-label="A view or a run"
        placeholder="Go to a view or a run"
        value={typed.value}
        onInput={(event) => (typed.value = event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-choices" role="listbox" aria-label="Places">
        {choices.map((choice, index) => (
          <li key={index} id={`palette-${index}`} role="option" aria-selected={index === at.value} onClick={() => take(choice)} onPointerMove={() => (at.value = index)}>
            {choice.text}
            <span class="hint">{choice.hint}</span>
          </li>
        ))}
      </ul>
    </dialog>
  );
}
