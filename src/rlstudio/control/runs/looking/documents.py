"""A run as a JSON document: what `rlctl ls`, `show` and `queue` print with `--json`, and what the HTTP API answers.

One document for each thing, made here and nowhere else. It only looks, and nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rlstudio.control.runs.looking.relatives import relatives_of
from rlstudio.core.errors import RLStudioError

if TYPE_CHECKING:
    from rlstudio.control.references import References
    from rlstudio.control.workspace import Entry, Workspace
    from rlstudio.experiment.checkpoint.manifest import CheckpointInfo
    from rlstudio.experiment.folder.run_folder import RunFolder
    from rlstudio.experiment.folder.status import Status

Document = dict[str, Any]

STORED = ("owner", "priority", "attempt", "parent_id", "parent_step", "sweep", "trial", "tags", "note")
"""Fields of a run that only the store has."""

RELATIVE_FIELDS = ("id", "name", "state", "recorded", "env_steps", "parent_id", "parent_step", "sweep", "trial")


def entry_document(entry: Entry) -> Document:
    """One run of a list."""
    known = {} if entry.run is None else {name: getattr(entry.run, name) for name in STORED}
    paused = entry.run is not None and entry.run.is_paused
    return {**entry.status.to_json(), "recorded": entry.recorded, "paused": paused, **known}


def list_documents(entries: Iterable[Entry], references: References) -> list[Document]:
    """Runs of a list, each with its handle."""
    return [{**entry_document(entry), "handle": references.handle(entry.id)} for entry in entries]


def run_document(status: Status, folder: RunFolder) -> Document:
    """The status with where the run lies and its checkpoints, oldest first."""
    infos = _checkpoints(folder)
    return {
        **status.to_json(),
        "path": str(folder.path),
        "seeds": folder.seeds(),
        "rollout_workers": folder.rollout_workers(),
        "topology": infos[0].topology if infos else None,
        "checkpoints": checkpoint_documents(folder, infos),
    }


def _checkpoints(folder: RunFolder) -> list[CheckpointInfo]:
    """Newest first."""
    from rlstudio.experiment.checkpoint.manifest import read_manifests
    from rlstudio.storage.folder import Folder

    return read_manifests(Folder(folder.path), folder.id) if folder.exists else []


def checkpoint_documents(folder: RunFolder, infos: Sequence[CheckpointInfo] | None = None) -> list[Document]:
    """The checkpoints of a run, oldest first; `infos`: where they were read already."""
    from rlstudio.experiment.checkpoint.manifest import folder_name
    from rlstudio.experiment.checkpoint.names import checkpoint_names
    from rlstudio.storage.folder import Folder

    known = _checkpoints(folder) if infos is None else infos
    names = checkpoint_names(Folder(folder.path), known) if known else {}
    return [
        {
            "step": info.step,
            "epoch": info.fields.get("epoch"),
            "state_hash": info.state_hash,
            "exact": info.fields.get("exact"),
            "path": str(folder.path / folder_name(info.step)),
            "size": sum(file.size for file in info.files.values()) + sum(ref.size for ref in info.segments),
            "tags": names.get(info.step, []),
        }
        for info in reversed(known)
    ]


def whole_document(entry: Entry, references: References) -> Document:
    """Everything that is known of one run."""
    from rlstudio.experiment.analysis.curriculum_standing import curriculum_standing

    return {
        **run_document(entry.status, entry.folder),
        **entry_document(entry),
        "handle": references.handle(entry.id),
        "total_steps": total_steps(entry),
        "weights": entry.lineage().get("weights"),
        "curriculum": curriculum_standing(entry.folder),
    }


def total_steps(entry: Entry) -> int | None:
    """How many environment steps it is to take, by its configuration; None where that cannot be read."""
    from rlstudio.core.parsing.yaml_file import read_text

    try:
        stored = entry.run is not None
        text = entry.workspace.records.config_yaml(entry.id) if stored else entry.folder.read_config()
        steps = read_text(text, "config").data["train"]["steps_per_epoch"]
    except (RLStudioError, KeyError, TypeError):
        return None
    return entry.status.total_epochs * steps if type(steps) is int and entry.status.total_epochs else None


def relative_documents(workspace: Workspace, entry: Entry) -> list[Document]:
    """The line of a run and all that was forked from its first ancestor; empty where only the folder knows it."""
    tree = [] if entry.run is None else relatives_of(workspace.records, entry.run)
    return [{"depth": depth, **_relative(workspace.entry(run))} for depth, run in tree]


def lineage_document(workspace: Workspace, entry: Entry) -> Document:
    """Where a run comes from and what came of it."""
    return {
        "id": entry.id,
        "lineage": entry.lineage(),
        "relatives": relative_documents(workspace, entry),
        "history": [vars(event) for event in entry.history()],
    }


def _relative(entry: Entry) -> Document:
    document = entry_document(entry)
    return {name: document[name] for name in RELATIVE_FIELDS}
