"""Lists that are shown whole: the queue, the sweeps and the models. A stream sends one again once it has changed."""

from __future__ import annotations

from rlstudio.control.queue.queue_document import queue_view
from rlstudio.control.registry.documents import models_document
from rlstudio.control.registry.records import Version
from rlstudio.control.registry.releases import Releases
from rlstudio.control.runs.looking.listing import Listing
from rlstudio.control.store.resources import KINDS
from rlstudio.control.sweep.report import list_document
from rlstudio.control.sweep.sweeps import Sweep, Sweeps
from rlstudio.control.workspace import Workspace
from rlstudio.server.api.answers import Document, run_row

LIVE = ("production", "staging")


def queue_document(workspace: Workspace, listing: Listing) -> Document:
    view, references = queue_view(workspace), listing.references()
    document = view.document(lambda entry: run_row(entry, references))
    for position, row in enumerate(document["queued"], start=1):
        row["position"] = position
    runs = [entry.run for entry in view.running if entry.run]
    return {
        **document,
        "slots": {kind: sum(getattr(worker, kind) for worker in view.workers) for kind in KINDS.values()},
        "in_use": {kind: sum(getattr(run, kind) for run in runs) for kind in KINDS.values()},
    }


def sweeps_document(workspace: Workspace) -> Document:
    """All sweeps, newest first."""
    if workspace.is_empty:
        return {"items": []}
    sweeps = Sweeps(workspace.records.database)
    return {"items": [_sweep_row(sweep, sweeps) for sweep in sweeps.all()]}


def _sweep_row(sweep: Sweep, sweeps: Sweeps) -> Document:
    row = list_document(sweep, sweeps.trials(sweep.name))
    return {**row, "created_at": sweep.created_at, "etag": sweep_etag(sweep)}


def sweep_etag(sweep: Sweep) -> str:
    """Differs after every change of who drives it, and of its state."""
    return f"{sweep.token}-{sweep.current.lower()}"


def models_list(workspace: Workspace) -> Document:
    """A row for each model, and every version of all of them."""
    versions = Releases(workspace).versions()
    by_name: dict[str, list[Version]] = {}
    for version in versions:
        by_name.setdefault(version.model, []).append(version)
    return {"items": [model_row(name, own) for name, own in by_name.items()], **models_document(versions, [])}


def model_row(name: str, versions: list[Version]) -> Document:
    stages = {str(version.stage): version.version for version in reversed(versions)}
    return {
        "name": name,
        "versions": len(versions),
        "newest": max(version.version for version in versions),
        "production": stages.get("production"),
        "staging": stages.get("staging"),
        "etag": models_etag(versions),
    }


def models_etag(versions: list[Version]) -> str:
    """Differs once a version was added or changed its stage."""
    newest = max(version.version for version in versions)
    stages = "-".join(f"{version.version}.{version.stage}" for version in versions if version.stage in LIVE)
    return f"{newest}-{stages}"
