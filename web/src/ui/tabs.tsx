import type { ComponentChildren } from "preact";
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
  return (
    <>
      <nav class="tabs" aria-label={label}>
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
