/** The best and the worst episode beside the curve; other videos below them. */
import { signal } from "@preact/signals";
import type { Artifact } from "../../api/types";
import { Button } from "../../ui/button";

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

const more = signal(false);

export function Videos({ run, files }: { run: string; files: readonly Artifact[] }) {
  // The newest of each comes first: names carry the epoch.
  const age = (file: Artifact): string => file.name.replace("-final", "~"); // after all others of its epoch
  const sorted = [...files].sort((a, b) => rank(a) - rank(b) || (age(a) < age(b) ? 1 : -1));
  const best = sorted.find((file) => rank(file) === 0);
  const worst = sorted.find((file) => rank(file) === 1);
  const first = [best, worst].filter((file): file is Artifact => file !== undefined);
  const shown = more.value || !first.length ? sorted : first;
  return (
    <section class="panel videos">
      <header>
        <h2>Episodes</h2>
        {shown.length < sorted.length && (
          <span class="actions">
            <Button kind="quiet" onClick={() => (more.value = true)}>
              All {sorted.length}
            </Button>
          </span>
        )}
      </header>
      <div class="inside">
        {shown.map((file) => (
          <figure key={file.name}>
            <video src={artifactUrl(run, file.name)} controls loop muted playsInline preload="metadata" aria-label={titleOf(file)} />
            <figcaption class="soft">{titleOf(file)}</figcaption>
          </figure>
        ))}
      </div>
    </section>
  );
}
