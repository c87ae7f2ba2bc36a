"""From the content of an old checkpoint to the content of today's, one version at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from rlstudio.core.errors import CheckpointError
from rlstudio.experiment.checkpoint.manifest import VERSION, Meta
from rlstudio.experiment.checkpoint.state_hash import SECTIONS

if TYPE_CHECKING:
    from rlstudio.core.contracts import State
    from rlstudio.core.model.protocol import Weights


class Content(TypedDict):
    """What a checkpoint holds; all but `version` and `meta` is the state that is hashed."""

    version: int
    module_state: dict[str, Weights]
    trainer_state: dict[str, State]
    replay_meta: dict[str, int]
    rng_state: dict[str, int]
    meta: Meta


def _to_2(content: Content) -> Content:
    """Version 2 says more in the manifest (`manifest.ADDED`); the state itself is the same, and so is its hash."""
    return {**content, "version": 2}


MIGRATIONS: dict[int, Callable[[Content], Content]] = {1: _to_2}
"""From the content of that version to the content of the next."""


def migrated(content: Content, label: str) -> Content:
    """The content in today's version; `label` names its checkpoint in an error message."""
    while content["version"] != VERSION:
        migrate = MIGRATIONS.get(content["version"])
        if migrate is None:
            raise CheckpointError(f"{label}: nothing migrates version {content['version']} to {VERSION}")
        content = migrate(content)
    if missing := {*SECTIONS, "meta"} - set(content):
        raise CheckpointError(f"{label}: {sorted(missing)[0]} is missing")
    return content
