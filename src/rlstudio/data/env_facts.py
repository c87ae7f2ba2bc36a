"""EnvFacts: spaces, config and device of environments that need not exist."""

from __future__ import annotations

from rlstudio.core.spaces import Spaces
from rlstudio.envs.config import EnvConfig


class EnvFacts:
    """What is known of the environments without having one: enough to act in them, not to learn from them.

    `world` is the config they are made from, for planners that use its equations; None where it is not known.
    """

    def __init__(self, spaces: Spaces, world: EnvConfig | None = None, device: str = "cpu") -> None:
        self.spaces = spaces
        self.world = world
        self.device = device

    @property
    def env_id(self) -> str:
        """The id of the environments; empty without `world`."""
        return "" if self.world is None else self.world.id
