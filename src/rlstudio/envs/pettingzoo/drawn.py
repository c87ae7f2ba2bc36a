"""One PettingZoo environment that draws itself, as a vector of its agents: to be filmed."""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import Array, Step
from rlstudio.envs.pettingzoo.recipe import PettingZooEnv, PettingZooRecipe
from rlstudio.envs.pettingzoo.team_block import TeamBlock
from rlstudio.envs.pettingzoo.team_rows import TeamBuffers


class DrawnTeam:
    """It stays at the end of its episode, whose picture is the last."""

    def __init__(self, recipe: PettingZooRecipe) -> None:
        self.num_envs = len(recipe.team.names)
        self.is_over = False
        self._rows = TeamBuffers(recipe.team.together, 1, self.num_envs)
        self._block = TeamBlock(recipe, self._rows, seed=0, render_mode="rgb_array")
        self._quiet = self._rows.quiet_step()

    def reset(self, seed: int) -> Array:
        self._block.begin(0, 0, fresh=True, seed=seed)
        self.is_over = False
        return self._rows.in_columns

    def step(self, actions: np.ndarray) -> Step:
        self._rows.clear()
        self.is_over = self._block.advance(0, actions)
        return self._rows.outcome(self._quiet)[0]

    @property
    def fps(self) -> float | None:
        fps = self._env.metadata.get("render_fps")
        return None if fps is None else float(fps)

    def render(self) -> object:
        return self._env.render()

    @property
    def _env(self) -> PettingZooEnv:
        game = self._block.games[0]
        assert game is not None, "reset comes first"
        return game.env

    def close(self) -> None:
        self._block.close()
