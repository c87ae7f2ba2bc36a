/** A component whose file is loaded when it is first shown. */
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { Blank, Loading } from "./blank";
import { Button } from "./button";

const loaded = signal<Record<string, ComponentType<never>>>({});
const unloadable = signal(false);

interface LazyProps<Props> {
  /** Known by this name once it is loaded. */
  name: string;
  what: string;
  load: () => Promise<{ default: ComponentType<Props> }>;
  props: Props;
}

export function Lazy<Props extends object>({ name, what, load, props }: LazyProps<Props>) {
  const Body = loaded.value[name] as ComponentType<Props> | undefined;
  if (Body) return <Body {...props} />;
  load().then(
    (module) => (loaded.value = { ...loaded.peek(), [name]: module.default as ComponentType<never> }),
    (error: unknown) => {
      console.error(error);
      unloadable.value = true;
    },
  );
  if (!unloadable.value) return <Loading what={what} />;
  return (
    <Blank title="This page is older than the server">
      <p>The dashboard was built anew since it was opened, or the server is gone.</p>
      <Button onClick={() => location.reload()}>Load it again</Button>
    </Blank>
  );
}
