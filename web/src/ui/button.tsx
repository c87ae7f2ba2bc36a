import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icon";

interface ButtonProps {
  children?: ComponentChildren;
  icon?: IconName;
  /** Needed where there is no text; shown as a tooltip. */
  label?: string;
  kind?: "plain" | "primary" | "danger" | "quiet";
  pressed?: boolean;
  disabled?: boolean;
  type?: "button" | "submit";
  onClick?: (event: MouseEvent) => void;
}

export function Button({ children, icon, label, kind = "plain", pressed, disabled, type = "button", onClick }: ButtonProps) {
  return (
    <button
      type={type}
      class={`button ${kind === "plain" ? "" : kind} ${children === undefined ? "icon" : ""}`}
      aria-label={children === undefined ? label : undefined}
      title={label}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={onClick}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** One of a few values, all visible. */
export function Segments<T extends string>({ label, value, options, onChange }: { label: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button type="button" key={option} aria-pressed={option === value} onClick={() => onChange(option)}>
          {text}
        </button>
      ))}
    </div>
  );
}
