"""The process of one operation: `python -m rlstudio.server.api.work.operation`, with the runs folder and its id."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlstudio.control.workspace import Workspace
from rlstudio.server.api.answers import encoded
from rlstudio.server.api.work.bundles import write_tar
from rlstudio.server.api.work.operations import FOLDER, problem
from rlstudio.server.api.work.refusals import refusal
from rlstudio.storage.folder import Folder


def main(runs_dir: Path, operation: str) -> None:
    workspace = Workspace(runs_dir)
    folder = Folder(workspace.state_dir / FOLDER)
    begun = json.loads(folder.read(f"{operation}.json") or b"{}")
    asked = begun["asked"]
    try:
        from rlstudio.experiment.config.imports import import_modules

        names = import_modules(asked["imports"], runs_dir=runs_dir)
        makers: dict[str, Callable[..., dict[str, Any]]] = {"promote": _promote, "export": _export}
        ended = makers[asked["kind"]](workspace, folder, operation, names, **asked["arguments"])
    except (Exception, SystemExit) as error:
        refused = refusal(error)
        ended = {"state": "failed", "error": problem(**refused)}
    folder.replace(f"{operation}.json", encoded({**begun, **ended}))


def _promote(
    workspace: Workspace,
    folder: Folder,
    operation: str,
    imports: tuple[str, ...],
    *,
    model: str,
    what: str,
    to: str,
    checkpoint: str,
    if_current: int | None,
    force: str | None,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """A version that was judged and not promoted is a result too, with every number."""
    from rlstudio.control.registry.documents import release_document
    from rlstudio.control.registry.promotion import PromotionConfig
    from rlstudio.control.registry.records import Stage, is_reference
    from rlstudio.control.registry.releases import PromotionRefused, Releases, refuse_empty_reason
    from rlstudio.core.config import parse

    cfg = parse(PromotionConfig, settings, "promote")
    refuse_empty_reason(force)
    releases = Releases(workspace)
    version = releases.version(what, "" if is_reference(what) else model, checkpoint)
    try:
        release = releases.promote(version, Stage(to), cfg, if_current=if_current, force=force, imports=imports)
    except PromotionRefused as refused:
        failed = refusal(refused)
        return {
            "state": "failed",
            "error": problem(**failed),
            "result": release_document(refused.version, refused.verdict),
        }
    return {"state": "done", "result": release_document(release.version, release.verdict)}


def _export(
    workspace: Workspace,
    folder: Folder,
    operation: str,
    imports: tuple[str, ...],
    *,
    run_id: str,
    checkpoint: str,
    formats: list[str] | None,
) -> dict[str, Any]:
    from rlstudio.control.registry.blobs import Blobs
    from rlstudio.delivery.export import export_run

    blobs = Blobs(workspace.state_dir / "registry" / "blobs")
    with blobs.unfinished() as place:
        run = workspace.folder_to_load(run_id)
        wanted = None if formats is None else tuple(formats)
        bundle = export_run(run, place / "bundle", checkpoint=checkpoint, formats=wanted)
        write_tar(bundle, folder, f"{operation}.tar")
        facts = {
            "name": bundle.spec.name,
            "sha256": bundle.sha256,
            "formats": dict(bundle.spec.formats),
            "step": bundle.spec.origin.checkpoint,
            "files": {name: file.size for name, file in bundle.files.items()},
        }
    return {"state": "done", "result": facts}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
