import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { href, param, place } from "../router";

export interface Tab {
  name: string;
  title: string;
  count?: number | undefined;
  body: () => ComponentChildren;
}

/** Tabs are places (`?tab=log`): links that can be sent and opened elsewhere. */
export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  const current = tabs.find((tab) => tab.name === param("tab")) ?? tabs[0];
  const link = (name: string): string => {
    const query = new URLSearchParams(place.value.query);
    if (name === tabs[0]?.name) query.delete("tab");
    else query.set("tab", name);
    return href(place.value.path, query);
  };
  const list = useRef<HTMLElement>(null);
  // On a narrow screen they are one line that scrolls.
  useEffect(() => list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [current?.name]);
  return (
    <>
      <nav class="tabs" aria-label={label} ref={list}>
        {tabs.map((tab) => (
          <a key={tab.name} href={link(tab.name)} aria-current={tab === current ? "page" : undefined}>
            {tab.title}
            {tab.count !== undefined && <span class="count">{tab.count}</span>}
          </a>
        ))}
      </nav>
      {current?.body()}
    </>
  );
}
