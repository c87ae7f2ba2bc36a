"""Blocks of Gymnasium's envs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.spaces import Spaces
from rlstudio.envs.gym.blocks import spaces_to_json
from rlstudio.envs.gym.env_block import EnvBlock
from rlstudio.envs.gym.probe import used_differs
from rlstudio.envs.gym.recipe import Recipe, close_quietly
from rlstudio.envs.gym.rows import Allocate, Buffers
from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.params.draw import Draw


class PlainBlocks:
    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def probe(self, habits: bool, tick: Callable[[], None]) -> State:
        env = self._recipe.build()
        spaces = convert_spaces(env, self._recipe.cfg.id, self._recipe.cfg.infos)
        rebuild = False
        if habits:  # else it is not even closed: an env that hangs or exits then is still to be trained on
            close_quietly(env)
            rebuild = used_differs(self._recipe, spaces, tick)
        return {"spaces": spaces_to_json(spaces), "rebuild": rebuild, "facts": {}}

    def rows(self, spaces: Spaces, num_envs: int, allocate: Allocate = np.zeros) -> Buffers:
        return Buffers(spaces, num_envs, allocate)

    def block(
        self,
        spaces: Spaces,
        rows: Buffers,
        seed: int,
        first: int = 0,
        rebuild: bool = False,
        watch: Callable[[int], None] | None = None,
        draw: Draw | None = None,
    ) -> EnvBlock:
        return EnvBlock(self._recipe, spaces, rows, seed, first, rebuild, watch, draw)

    def to_json(self) -> State:
        return {"blocks": f"{__name__}:{type(self).__name__}", **self._recipe.to_json()}

    @classmethod
    def from_json(cls, value: State) -> PlainBlocks:
        return cls(Recipe.from_json(value))
