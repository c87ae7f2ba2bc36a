"""All that a workspace holds, looked at in one go: the store and its history, run folders, the registry, versions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rlstudio.control.inspection.folder_rules import inspect_checkpoints, inspect_folders
from rlstudio.control.inspection.registry_rules import inspect_registry
from rlstudio.control.inspection.store_rules import inspect_store
from rlstudio.control.inspection.version_rules import inspect_versions
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import StorageError, UserError
from rlstudio.experiment.doctor.advice import Advice


@dataclass
class StoredState:
    """`looked_at`: how many of each kind there are."""

    advice: list[Advice] = field(default_factory=list)
    looked_at: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not any(each.severity == "error" for each in self.advice)

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "looked_at": self.looked_at, "advice": [asdict(each) for each in self.advice]}


def inspect(workspace: Workspace) -> StoredState:
    state = StoredState()
    state.advice += inspect_versions()
    if workspace.is_empty:
        return state
    try:
        state.advice += inspect_store(workspace, state.looked_at)
    except (StorageError, UserError) as error:
        text, _, remedy = str(error).rpartition("; ")
        state.advice.append(Advice("error", "store", text or remedy, remedy if text else "look at the file"))
        return state
    state.advice += inspect_folders(workspace)
    state.advice += inspect_checkpoints(workspace, state.looked_at)
    state.advice += inspect_registry(workspace, state.looked_at)
    return state
