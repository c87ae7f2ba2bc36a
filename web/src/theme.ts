/** Light or dark: the system's choice, until somebody chooses here. */
import { computed, effect, signal } from "@preact/signals";

type Choice = "system" | "light" | "dark";
const KEY = "rlstudio.theme";

const dark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", () => (systemDark.value = dark.matches));

const stored = localStorage.getItem(KEY);
const choice = signal<Choice>(stored === "light" || stored === "dark" ? stored : "system");
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
