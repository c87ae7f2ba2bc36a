/** The frame of every view: rail, banner of the connection, what lies above. */
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { explain, get, me, signedOut } from "./api/client";
import { connection, resyncs, retryIn, retryNow } from "./api/stream";
import { loadSweeps } from "./api/sweeps";
import type { Me } from "./api/types";
import { bindings, useKeys } from "./keys";
import { Palette, paletteOpen } from "./palette";
import { go, href, path } from "./router";
import { useScrollPlace } from "./scroll";
import { SignIn } from "./signin";
import { theme, toggleTheme } from "./theme";
import { Blank } from "./ui/blank";
import { Button } from "./ui/button";
import { AskDialog, Dialog } from "./ui/dialog";
import { Icon, Mark } from "./ui/icon";
import { Lazy } from "./ui/lazy";
import { toast, Toasts } from "./ui/toast";
import { type View, VIEWS } from "./views";

export function Shell() {
  const helping = useSignal(false);
  useEffect(() => {
    get<Me>("/me").then(
      (known) => (me.value = known),
      (error: unknown) => !signedOut.value && toast(explain(error), "bad"),
    );
    void loadSweeps();
  }, [resyncs.value]);

  const opening = VIEWS.map((view) => [`g ${view.key}`, [`Open ${view.title}`, () => go(href([view.name]))]] as const);
  useKeys("Everywhere", {
    "?": ["Show the keys", () => (helping.value = true)],
    "/": ["Search", () => focusSearch()],
    ":": ["Go to anything", () => (paletteOpen.value = true)],
    t: ["Light or dark", toggleTheme],
    ...Object.fromEntries(opening),
  });

  useScrollPlace(() => document.getElementById("content"));

  if (signedOut.value) return <SignIn />;
  const [name] = path.value;
  const view = name === undefined ? VIEWS[0] : VIEWS.find((candidate) => candidate.name === name);
  return (
    <div class="shell">
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), document.getElementById("content")?.focus())}>
        Skip to the content
      </a>
      <Rail current={view} onHelp={() => (helping.value = true)} />
      <Banner />
      <main class="view" id="content" tabIndex={-1}>
        <Content view={view} />
      </main>
      <Toasts />
      <AskDialog />
      <Palette />
      {helping.value && <Keys onClose={() => (helping.value = false)} />}
    </div>
  );
}

function Content({ view }: { view: View | undefined }) {
  if (!view)
    return (
      <Blank title="There is no such page">
        <p>The address names no view of the dashboard.</p>
        <a href={href(["runs"])}>Go to the runs</a>
      </Blank>
    );
  return <Lazy key={view.name} name={view.name} what={view.title.toLowerCase()} load={view.load} props={{ rest: path.value.slice(1) }} />;
}

/** `/` goes to the search of the view, and to the palette where a view has none. */
function focusSearch(): void {
  const field = document.querySelector<HTMLInputElement>("main input[type=search]");
  if (field) field.select();
  else paletteOpen.value = true;
}

function Rail({ current, onHelp }: { current: View | undefined; onHelp: () => void }) {
  return (
    <nav class="rail" aria-label="Views">
      <a class="brand" href={href(["runs"])}>
        <Mark /> RLStudio
      </a>
      {VIEWS.map((view) => (
        <a class="item" key={view.name} href={href([view.name])} aria-current={view === current ? "page" : undefined} title={`${view.title} (g ${view.key})`}>
          <Icon name={view.icon} />
          {view.title}
        </a>
      ))}
      <span class="rest" />
      <div class="foot">
        <span class="who" title={me.value ? `Signed in as ${me.value.name} (${me.value.role})` : undefined}>
          {me.value?.role === "read" ? `${me.value.name} · read only` : me.value?.name}
        </span>
        <span class="wide-only">
          <Button kind="quiet" icon="help" label="Keys (?)" onClick={onHelp} />
        </span>
        <Button kind="quiet" icon={theme.value === "dark" ? "sun" : "moon"} label={theme.value === "dark" ? "Light theme (t)" : "Dark theme (t)"} onClick={toggleTheme} />
      </div>
    </nav>
  );
}

const FOUND_MS = 3_000;

/** Says when the connection is lost, and for a moment that it is back. */
function Banner() {
  const found = useSignal(false);
  useSignalEffect(() => {
    if (resyncs.value === 0) return;
    found.value = true;
    setTimeout(() => (found.value = false), FOUND_MS);
  });
  if (connection.value === "lost")
    return (
      <div class="banner" role="alert">
        <Icon name="warning" />
        <span>Connection to the server lost. What you see is how it was; {retryIn.value > 0 ? `next try in ${retryIn.value} s.` : "trying …"}</span>
        <Button kind="quiet" onClick={retryNow}>
          Try now
        </Button>
      </div>
    );
  if (found.value)
    return (
      <div class="banner found" role="status">
        <Icon name="check" /> Connected again. Everything is up to date.
      </div>
    );
  return null;
}

function Keys({ onClose }: { onClose: () => void }) {
  const sections = [...new Set(bindings.value.map((binding) => binding.section))];
  return (
    <Dialog title="Keys" wide onClose={onClose}>
      <div class="keys">
        {sections.map((section) => (
          <section key={section}>
            <h3>{section}</h3>
            <dl>
              {bindings.value
                .filter((binding) => binding.section === section)
                .map((binding) => [
                  <dt>
                    {binding.keys.split(" ").map((key) => (
                      <kbd key={key}>{NAMES[key] ?? key}</kbd>
                    ))}
                  </dt>,
                  <dd>{binding.does}</dd>,
                ])}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}

const NAMES: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };
