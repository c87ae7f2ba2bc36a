"""EnvDescription: spaces, config and device of environments that need not exist."""

from __future__ import annotations

from rlstudio.core.spaces import Spaces
from rlstudio.envs.config import EnvConfig


class EnvDescription:
    """EnvFacts of environments that nobody made. `env_config` is what they would be made from; None where it is not
    known."""

    def __init__(self, spaces: Spaces, env_config: EnvConfig | None = None, device: str = "cpu") -> None:
        self.spaces = spaces
        self.env_config = env_config
        self.device = device

    @property
    def env_id(self) -> str:
        """The id of the environments; empty without `env_config`."""
        return "" if self.env_config is None else self.env_config.id
