/** Keys of the page. A view adds its own while it is shown; `?` lists what holds now. */
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

export interface KeyBinding {
  /** One key ("x", "Enter", "/", "ArrowDown") or two in a row ("g r"). */
  keys: string;
  does: string;
  /** Heading on the `?` page. */
  section: string;
  run: () => void;
}

export const bindings = signal<KeyBinding[]>([]);
const SEQUENCE_MS = 1_200;

/** Bindings that hold while the component is shown. */
export function useKeys(section: string, keys: Record<string, readonly [does: string, run: () => void]>, on = true): void {
  // Not after the next paint: two keys in a row must not meet what was shown before the first.
  useLayoutEffect(() => {
    if (!on) return;
    const own = Object.entries(keys).map(([name, [does, run]]) => ({ keys: name, does, section, run }));
    bindings.value = [...bindings.peek(), ...own];
    return () => {
      bindings.value = bindings.peek().filter((binding) => !own.includes(binding));
    };
  });
}

const isTyping = (target: EventTarget | null): boolean => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Enter and Space belong to the control that has the focus. */
const isControl = (target: EventTarget | null): boolean => target instanceof HTMLElement && target.closest("button, a, summary, [role=menuitem]") !== null;

export function startKeys(): void {
  let before = "";
  let at = 0;
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") (event.target as HTMLElement).blur();
      return;
    }
    if ((event.key === "Enter" || event.key === " ") && isControl(event.target)) return;
    const pair = Date.now() - at < SEQUENCE_MS ? `${before} ${event.key}` : "";
    // The newest binding of a key wins: a view may take a key from the shell.
    const newest = [...bindings.peek()].reverse();
    const binding = newest.find(({ keys }) => keys === pair) ?? newest.find(({ keys }) => keys === event.key);
    before = event.key;
    at = Date.now();
    if (!binding) return;
    event.preventDefault();
    before = "";
    binding.run();
  });
}
