"""What steps envs into rows, whichever kind of envs they are: the vector in this process, the worker processes and the
replay of first steps know only this. Gymnasium's are in `plain_blocks.py`, PettingZoo's in `envs/pettingzoo`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.spaces import Spaces, from_json, to_json
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.rows import Allocate, Buffers
from rlstudio.envs.params.draw import Draw


class EnvRecipe(Protocol):
    """How one env is made."""

    cfg: EnvConfig

    @property
    def draw(self) -> Draw | None:
        """What parameters of episodes are drawn from; None: none are."""
        ...


class Block(Protocol):
    """Some envs of a vector and their rows. Parameters of episodes come from `draw`, which may be replaced: it counts
    from each env's next episode on."""

    draw: Draw | None

    def reset(self) -> None: ...

    def step(self, actions: np.ndarray) -> None: ...

    def place(
        self, index: int, episode: int, actions: np.ndarray, params: Mapping[str, float] | None = None
    ) -> int | None: ...

    def close(self) -> None: ...


class Blocks(Protocol):
    """Makes blocks of one config's envs, the same in every process."""

    def probe(self, habits: bool, tick: Callable[[], None]) -> State:
        """As JSON: `spaces`, whether to `rebuild` an env for every episode (if `habits` are asked for), and what else
        is to be known of the envs (`facts`). `tick` is a sign of life."""
        ...

    def rows(self, spaces: Spaces, num_envs: int, allocate: Allocate = np.zeros) -> Buffers:
        """Room for what so many envs show."""
        ...

    def block(
        self,
        spaces: Spaces,
        rows: Buffers,
        seed: int,
        first: int = 0,
        rebuild: bool = False,
        watch: Callable[[int], None] | None = None,
        draw: Draw | None = None,
    ) -> Block: ...

    def to_json(self) -> State:
        """Plain values from which `blocks_from_json` makes the same in another process: with the entry `blocks`, the
        class as `module:Name`, whose `from_json` takes them."""
        ...


def blocks_from_json(value: State) -> Blocks:
    module, _, name = value["blocks"].partition(":")
    made: Blocks = getattr(import_module(module), name).from_json(value)
    return made


def spaces_to_json(spaces: Spaces) -> State:
    return {"observation": to_json(spaces.observation), "action": to_json(spaces.action), "infos": spaces.infos}


def spaces_from_json(value: State) -> Spaces:
    return Spaces(from_json(value["observation"]), from_json(value["action"]), tuple(value["infos"]))
