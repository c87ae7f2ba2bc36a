/** What stands where there is nothing to show: why, and what to do. */
import type { ComponentChildren } from "preact";
import type { ApiError } from "../api/client";
import { Button } from "./button";

export function Blank({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="blank">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** `children`: where else to go, such as to the list of what was not found. */
export function Failed({ error, retry, children }: { error: ApiError; retry?: () => void; children?: ComponentChildren }) {
  return (
    <div class="blank" role="alert">
      <strong>{error.status === 404 ? "Not found" : "This could not be loaded"}</strong>
      <p>{error.message}</p>
      <span class="toolbar">
        {retry && <Button onClick={retry}>Try again</Button>}
        {children}
      </span>
    </div>
  );
}

/** Nothing for the first moment: what answers at once does not flicker. */
export function Loading({ what }: { what: string }) {
  return (
    <div class="blank loading" role="status">
      <span>Loading {what} …</span>
    </div>
  );
}
