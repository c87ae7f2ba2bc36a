"""The words that checkpoints of a run are called by, `last` and `best`, found without loading one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rlstudio.core.errors import CheckpointError
from rlstudio.experiment.checkpoint.manifest import LARGEST_JSON, STATE, CheckpointInfo, folder_name
from rlstudio.storage.folder import Folder
from rlstudio.storage.verified import open_verified

LAST, BEST = "last", "best"


def checkpoint_names(folder: Folder, infos: Sequence[CheckpointInfo]) -> dict[int, list[str]]:
    """The words for each step that has one; `infos`: newest first, as `read_manifests` gives them."""
    names: dict[int, list[str]] = {}
    if infos:
        names[infos[0].step] = [LAST]
    best = best_step(folder, infos)
    if best is not None:
        names[best] = [*names.get(best, []), BEST]
    return names


def best_step(folder: Folder, infos: Sequence[CheckpointInfo]) -> int | None:
    """The step of the best evaluation so far, which the newest checkpoint whose state verifies remembers; None where
    nothing was evaluated yet, or that checkpoint was not kept."""
    for info in infos:
        try:
            best = _remembered(folder, info)
        except CheckpointError:
            continue
        return best if any(other.step == best for other in infos) else None
    return None


def _remembered(folder: Folder, info: CheckpointInfo) -> int | None:
    """Read from the JSON of the state as it is: its tensors are not needed for it."""
    name = f"{folder_name(info.step)}/{STATE}"
    with open_verified(folder, name, info.files[STATE]) as file:
        data = file.read(LARGEST_JSON)
    try:
        value = json.loads(data)
        for part in ("trainer_state", "session", BEST, "step"):
            value = value.get(part) if isinstance(value, Mapping) else None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name}: not a state: {error}") from error
    return value if type(value) is int else None
