/** Saved views: an address with a name, kept by this browser. */
import { signal } from "@preact/signals";
import { go, place } from "../../router";
import { ask } from "../../ui/dialog";
import { Icon } from "../../ui/icon";
import { Menu } from "../../ui/menu";

interface SavedView {
  name: string;
  search: string;
}

const KEY = "rlstudio.views";

function stored(): SavedView[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(value) ? value.filter((one): one is SavedView => typeof one?.name === "string" && typeof one?.search === "string") : [];
  } catch {
    return [];
  }
}

const views = signal(stored());
// What another tab saves is here too, and not lost with the next one saved here.
window.addEventListener("storage", () => (views.value = stored()));

function keep(changed: SavedView[]): void {
  views.value = changed;
  localStorage.setItem(KEY, JSON.stringify(changed));
}

async function save(): Promise<void> {
  const search = place.peek().query.toString();
  const name = await ask({ title: "Save this view", detail: "Filters, sorting, groups and columns as they are now. Kept by this browser; the address of the page is the same view for everybody.", confirm: "Save", input: { label: "Name", required: true } });
  if (name) keep([...views.peek().filter((view) => view.name !== name), { name, search }]);
}

export function SavedViews() {
  return (
    <Menu label="Saved views" icon="save" text={<span class="optional">Views</span>}>
      <button type="button" onClick={() => go("#/runs")}>
        All runs
      </button>
      {views.value.map((view) => (
        <div class="toolbar" style="flex-wrap:nowrap;gap:0" key={view.name}>
          <button type="button" onClick={() => go(`#/runs${view.search && `?${view.search}`}`)}>
            {view.name}
          </button>
          <button type="button" style="width:auto" aria-label={`Forget ${view.name}`} onClick={() => keep(views.peek().filter((other) => other !== view))}>
            <Icon name="close" size={12} />
          </button>
        </div>
      ))}
      <hr />
      <button type="button" onClick={() => void save()}>
        <Icon name="add" /> Save this view …
      </button>
    </Menu>
  );
}
