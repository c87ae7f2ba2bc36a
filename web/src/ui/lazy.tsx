/** A component whose file is loaded when it is first shown. */
import { effect, signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { connection, resyncs } from "../api/stream";
import { Blank, Loading } from "./blank";
import { Button } from "./button";

const loaded = signal<Record<string, ComponentType<never>>>({});
const unloadable = signal(false);

// A browser asks only once for a file of code that it could not get: the page begins anew when its server is back.
effect(() => {
  if (resyncs.value > 0 && unloadable.peek()) location.reload();
});

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
  if (connection.value === "lost")
    return (
      <Blank title="The server does not answer">
        <p>This view was not loaded yet. It appears as soon as the server is back.</p>
      </Blank>
    );
  return (
    <Blank title="This page is older than the server">
      <p>The dashboard has been rebuilt since you opened it.</p>
      <Button onClick={() => location.reload()}>Reload</Button>
    </Blank>
  );
}
