/** The best and the worst episode beside the curve; `?videos=all` has the others below them. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Artifact } from "../../api/types";
import { param, setParams } from "../../router";
import { Button } from "../../ui/button";
import { Icon } from "../../ui/icon";
import { toast } from "../../ui/toast";

export const artifactUrl = (run: string, name: string): string => `api/v1/runs/${run}/artifacts/${name.split("/").map(encodeURIComponent).join("/")}`;

/** `videos/epoch-000012-final-best.mp4` */
const EPOCH = /epoch-0*(\d+)/;

function rank(file: Artifact): number {
  if (/best/i.test(file.name)) return 0;
  return /worst/i.test(file.name) ? 1 : 2;
}

function titleOf(file: Artifact): string {
  const which = ["Best episode", "Worst episode", file.name.split("/").pop() ?? file.name][rank(file)] as string;
  if (/-final-/.test(file.name)) return `${which} after training`;
  const epoch = EPOCH.exec(file.name)?.[1];
  return epoch ? `${which}, epoch ${epoch}` : which;
}

/** The picture stands alone until somebody plays it: the controls of a browser hide half of so small a one. */
function Film({ run, file }: { run: string; file: Artifact }) {
  const element = useRef<HTMLVideoElement>(null);
  const begun = useSignal(false);
  const title = titleOf(file);
  const play = (): void => {
    begun.value = true;
    element.current?.play().catch((error: unknown) => {
      if (error instanceof Error && error.name === "NotSupportedError") toast("This browser cannot play the film; the Checkpoints tab has it as a file", "bad");
    });
    element.current?.focus();
  };
  return (
    <figure>
      <div class="film">
        <video ref={element} src={artifactUrl(run, file.name)} controls={begun.value} tabIndex={begun.value ? 0 : -1} loop muted playsInline preload="metadata" aria-label={title} />
        {!begun.value && (
          <button type="button" aria-label={`Play: ${title}`} onClick={play}>
            <Icon name="play" size={18} />
          </button>
        )}
      </div>
      <figcaption class="soft">{title}</figcaption>
    </figure>
  );
}

export function Videos({ run, files }: { run: string; files: readonly Artifact[] }) {
  // The newest of each comes first: names carry the epoch.
  const age = (file: Artifact): string => file.name.replace("-final", "~"); // after all others of its epoch
  const sorted = [...files].sort((a, b) => rank(a) - rank(b) || (age(a) < age(b) ? 1 : -1));
  const best = sorted.find((file) => rank(file) === 0);
  const worst = sorted.find((file) => rank(file) === 1);
  const first = [best, worst].filter((file): file is Artifact => file !== undefined);
  const shown = param("videos") === "all" || !first.length ? sorted : first;
  return (
    <section class="panel videos">
      <header>
        <h2>Episodes</h2>
        {shown.length < sorted.length && (
          <span class="actions">
            <Button kind="quiet" onClick={() => setParams({ videos: "all" })}>
              All {sorted.length}
            </Button>
          </span>
        )}
      </header>
      <div class="inside">
        {shown.map((file) => (
          <Film key={file.name} run={run} file={file} />
        ))}
      </div>
    </section>
  );
}
