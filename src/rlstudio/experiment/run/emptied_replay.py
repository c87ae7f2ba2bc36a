"""Go on with a run whose replay is damaged: the same state, but with an emptied buffer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlstudio.core.errors import Incompatible
from rlstudio.data.replay.source import ReplaySource
from rlstudio.experiment.checkpoint.checkpoints import Loaded
from rlstudio.experiment.checkpoint.manifest import folder_name
from rlstudio.experiment.checkpoint.state_hash import state_tree_of


def without_replay(loaded: Loaded) -> Loaded:
    """The checkpoint as if nothing were in its replay; the source collects its warm-up again before it goes on."""
    parts = loaded.content["trainer_state"]
    emptied = {name: ReplaySource.without_rows(part) if _has_rows(part) else part for name, part in parts.items()}
    content = loaded.content | {"trainer_state": emptied, "replay_meta": {"size": 0}}
    if left := state_tree_of(content).segments:
        raise Incompatible(
            f"{folder_name(loaded.info.step)}: {left[0].name} is not of a replay buffer that can be emptied;"
            " restore the segments from a backup"
        )
    return replace(loaded, content=content, is_emptied=True)


def _has_rows(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("replay"), dict) and "segments" in part["replay"]
