"""EnvDescription: spaces, config and device of environments that need not exist."""

from __future__ import annotations

from rlstudio.core.spaces import Spaces
from rlstudio.envs.config import EnvConfig


class EnvDescription:
    """EnvFacts of environments that nobody made. `world` is the config they would be made from; None where it is not
    known."""

    def __init__(self, spaces: Spaces, world: EnvConfig | None = None, device: str = "cpu") -> None:
        self.spaces = spaces
        self.world = world
        self.device = device

    @property
    def env_id(self) -> str:
        """The id of the environments; empty without `world`."""
        return "" if self.world is None else self.world.id
