"""Go on with a run whose replay is damaged, or fork it: the same state, but with an emptied buffer."""

from __future__ import annotations

from dataclasses import replace

from rlstudio.core.errors import Incompatible
from rlstudio.data.replay.source import ReplaySource
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Content, Loaded
from rlstudio.experiment.checkpoint.manifest import folder_name
from rlstudio.experiment.checkpoint.state_hash import state_tree_of


def emptied_if_damaged(checkpoints: Checkpoints, loaded: Loaded) -> Loaded:
    """The checkpoint, without its replay where a segment of it is damaged: `replay_damage` then says which and how. The
    source collects its warm-up again before it goes on."""
    damage = checkpoints.damaged_segment(loaded.info)
    return loaded if damage is None else _without_replay(loaded, damage)


def _without_replay(loaded: Loaded, damage: str) -> Loaded:
    parts = loaded.content["trainer_state"]
    emptied = {name: ReplaySource.without_rows(part) if _has_rows(part) else part for name, part in parts.items()}
    content: Content = {**loaded.content, "trainer_state": emptied, "replay_meta": {"size": 0}}
    if left := state_tree_of(content).segments:
        raise Incompatible(
            f"{folder_name(loaded.info.step)}: {left[0].name} is not of a replay buffer that can be emptied;"
            " restore the segments from a backup"
        )
    return replace(loaded, content=content, replay_damage=damage)


def _has_rows(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("replay"), dict) and "segments" in part["replay"]
