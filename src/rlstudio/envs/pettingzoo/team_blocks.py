"""Blocks of PettingZoo's envs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.spaces import Spaces
from rlstudio.envs.gym.blocks import spaces_to_json
from rlstudio.envs.gym.recipe import close_quietly
from rlstudio.envs.gym.rows import Allocate, Buffers
from rlstudio.envs.params.draw import Draw
from rlstudio.envs.pettingzoo.agent_spaces import TeamSpaces, convert_team
from rlstudio.envs.pettingzoo.probe import used_differs
from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe
from rlstudio.envs.pettingzoo.team_block import TeamBlock
from rlstudio.envs.pettingzoo.team_rows import TeamBuffers

TEAM = "team"


class TeamBlocks:
    def __init__(self, recipe: PettingZooRecipe) -> None:
        self._recipe = recipe

    def probe(self, habits: bool, tick: Callable[[], None]) -> State:
        env = self._recipe.build()
        self._recipe.team = team = convert_team(env, self._recipe.cfg)
        rebuild = False
        if habits:  # as of Gymnasium's: one that hangs at its end is still to be trained on
            close_quietly(env)
            rebuild = used_differs(self._recipe, tick)
        return {"spaces": spaces_to_json(team.together), "rebuild": rebuild, "facts": {TEAM: team.to_json()}}

    def rows(self, spaces: Spaces, num_envs: int, allocate: Allocate = np.zeros) -> TeamBuffers:
        return TeamBuffers(spaces, num_envs, len(self._recipe.team.names), allocate)

    def block(
        self,
        spaces: Spaces,
        rows: Buffers,
        seed: int,
        first: int = 0,
        rebuild: bool = False,
        watch: Callable[[int], None] | None = None,
        draw: Draw | None = None,
    ) -> TeamBlock:
        assert draw is None, "env.params of PettingZoo's envs are refused"
        assert isinstance(rows, TeamBuffers)
        return TeamBlock(self._recipe, rows, seed, first, rebuild, watch)

    def to_json(self) -> State:
        return {"blocks": f"{__name__}:{type(self).__name__}", **self._recipe.to_json()}

    @classmethod
    def from_json(cls, value: State) -> TeamBlocks:
        """With the facts of a probe beside the rest, no env is made to find these out again."""
        recipe = PettingZooRecipe.from_json(value)
        if TEAM in value:
            recipe.team = TeamSpaces.from_json(value[TEAM])
        return cls(recipe)
