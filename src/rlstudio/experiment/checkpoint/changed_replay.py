"""The replay of a run that goes on, or of a fork, is not what it was: emptied where it is damaged, or changed by what a
user decided about its sources (`rlctl replay`).

A decision is an event of the run. The session that goes on carries out those that its checkpoint has not seen yet, so
each is carried out once, also after a roll-back, and the run is not exact from there on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlstudio.core.contracts import DataSource
from rlstudio.core.errors import Incompatible
from rlstudio.data.replay.source import ReplaySource
from rlstudio.data.replay.sources import Sources
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Content, Loaded
from rlstudio.experiment.checkpoint.manifest import folder_name
from rlstudio.experiment.checkpoint.state_hash import state_tree_of
from rlstudio.experiment.folder.run_folder import RunFolder

EVENT = "replay_decided"
QUARANTINE, PURGE, RELEASE = "quarantine", "purge", "release"
BY_USER = "by the user"


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


def decisions(folder: RunFolder) -> Iterator[tuple[str, int]]:
    """All that were made, the oldest first: what, and of which source."""
    for event in folder.events():
        action, source = event.get("action"), event.get("source")
        if event.get("kind") == EVENT and isinstance(action, str) and isinstance(source, int):
            yield action, source


def for_a_child(content: Content) -> Content:
    """The content as that of a new run, whose history has none of these decisions: what they did stays, and its own
    are counted from zero."""
    parts = content["trainer_state"]
    source = parts.get("source", {})
    if not source.get("sources", {}).get("decisions"):
        return content
    sources = {**source["sources"], "decisions": 0}
    kept = {"sources": sources} if any(sources.values()) else {}
    rest = {name: value for name, value in source.items() if name != "sources"}
    return {**content, "trainer_state": {**parts, "source": {**rest, **kept}}}


def carry_out(folder: RunFolder, source: DataSource) -> str | None:
    """Those that are new to this source; what was done, or None where nothing was."""
    sources = source.sources if isinstance(source, ReplaySource) else None
    if sources is None:
        return None
    new = [*decisions(folder)][sources.decisions :]
    for action, number in new:
        if 0 <= number < len(sources.origins):
            apply(sources, action, number)
    sources.decisions += len(new)
    done = "; ".join(f"{action} {number}" for action, number in new)
    return f"sources of the replay were changed by the user: {done}" if new else None


def apply(sources: Sources, action: str, number: int) -> None:
    if action == RELEASE:
        sources.release(number)
    elif action == PURGE:
        sources.purge(number, BY_USER)
    elif action == QUARANTINE:
        sources.quarantine(number, BY_USER)
