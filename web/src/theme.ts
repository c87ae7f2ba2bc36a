/** Light or dark: the system's choice, until somebody chooses here. */
import { computed, effect, signal } from "@preact/signals";

type Choice = "system" | "light" | "dark";
const KEY = "rlstudio.theme";

const dark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", () => (systemDark.value = dark.matches));

function stored(): Choice {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}

const choice = signal(stored());
window.addEventListener("storage", () => (choice.value = stored())); // somebody chose in another tab
export const theme = computed(() => (choice.value === "system" ? (systemDark.value ? "dark" : "light") : choice.value));

export function toggleTheme(): void {
  const next = theme.value === "dark" ? "light" : "dark";
  choice.value = (next === "dark") === systemDark.value ? "system" : next;
}

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  if (choice.value === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice.value);
});
