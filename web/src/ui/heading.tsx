import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

/** The top of a view; `title` also names the tab. */
export function Heading({ title, before, sub, children }: { title: string; before?: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · RLStudio`;
  }, [title]);
  return (
    <header class="heading">
      {before}
      <h1>{title}</h1>
      {sub !== undefined && <span class="sub">{sub}</span>}
      {children !== undefined && <div class="actions">{children}</div>}
    </header>
  );
}
