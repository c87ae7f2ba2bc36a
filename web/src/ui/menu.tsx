import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icon";

/** A button that opens a list below it. A click outside, Escape and a choice close it; arrows move. */
export function Menu({ label, icon, text, side = "right", keepOpen = false, children }: { label: string; icon?: IconName; text?: ComponentChildren; side?: "left" | "right"; keepOpen?: boolean; children: ComponentChildren }) {
  const open = useSignal(false);
  const element = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!open.value) return;
    const outside = (event: Event): void => {
      if (!element.current?.contains(event.target as Node)) open.value = false;
    };
    document.addEventListener("pointerdown", outside);
    element.current?.querySelector<HTMLElement>(".menu-list button, .menu-list a, .menu-list input")?.focus();
    return () => document.removeEventListener("pointerdown", outside);
  }, [open.value]);

  const onKeyDown = (event: KeyboardEvent): void => {
    if (!open.value) return;
    if (event.key === "Escape") {
      open.value = false;
      element.current?.querySelector<HTMLElement>("button")?.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const items = [...(element.current?.querySelectorAll<HTMLElement>(".menu-list button:not(:disabled), .menu-list a, .menu-list input") ?? [])];
      const at = items.indexOf(document.activeElement as HTMLElement);
      items[(at + (event.key === "ArrowDown" ? 1 : items.length - 1) + items.length) % items.length]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div class="menu" ref={element} onKeyDown={onKeyDown}>
      <button
        type="button"
        class={`button ${text === undefined ? "icon quiet" : ""}`}
        aria-label={typeof text === "string" ? undefined : label}
        title={label}
        aria-expanded={open.value}
        onClick={() => (open.value = !open.value)}
      >
        {icon && <Icon name={icon} />}
        {text}
        {text !== undefined && <Icon name="down" size={12} />}
      </button>
      {open.value && (
        <div class={`menu-list ${side}`} role="group" aria-label={label} onClick={() => !keepOpen && (open.value = false)}>
          {children}
        </div>
      )}
    </div>
  );
}
