"""Gymnasium envs in this process (`vectorization: sync`): the quickest way for envs that step in well under 0.3 ms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstudio.core.contracts import Array, State, Step
from rlstudio.envs.gym.env_block import EnvBlock
from rlstudio.envs.gym.first_steps import first_difference
from rlstudio.envs.gym.plain_blocks import PlainBlocks
from rlstudio.envs.gym.probe import used_differs
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.replay_log import Journal
from rlstudio.envs.gym.rows import Buffers
from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.seeds import episode_name


class GymnasiumVecEnv:
    """The arrays of a Step are reused by the next one; `exact` turns into a reason when a replay did not match."""

    vectorization = "sync"
    agents = 1
    restart_reasons = None

    def __init__(self, recipe: Recipe, num_envs: int, seed: int) -> None:
        with recipe.opened() as env:
            self.spaces = convert_spaces(env, recipe.cfg.id, recipe.cfg.infos)
        self.num_envs = num_envs
        self.exact: str | None = None
        self._rows = rows = Buffers(self.spaces, num_envs)
        rebuild = used_differs(recipe, self.spaces)
        self._block = EnvBlock(recipe, self.spaces, rows, seed, rebuild=rebuild)
        self._made_from = (PlainBlocks(recipe), self.spaces, seed, rebuild)
        self._journal = Journal(rows)
        self._quiet = rows.quiet_step()

    def reset(self) -> Array:
        self._block.reset()
        self._journal.restart()
        return self._rows.observations

    def step(self, actions: np.ndarray) -> Step:
        self._block.step(actions)
        step, ended = self._rows.outcome(self._quiet)
        self._journal.record(actions, ended)
        return step

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return episode_name(self._made_from[2], env, int(self._journal.episodes[env]) - ago)

    @property
    def restarted(self) -> Sequence[int]:
        return self._journal.restarted

    def position(self) -> State:
        """The first one after some steps also replays them: `exact` then says whether the env repeats itself."""
        steps = self._journal.take_first_steps()
        if steps is not None:
            self.exact = first_difference(steps, *self._made_from) or self.exact
        return self._journal.position()

    def seek(self, position: State) -> Array:
        journal = self._journal
        journal.adopt(position)
        self.exact = None
        for index in range(self.num_envs):
            digest = self._block.place(index, int(journal.episodes[index]), journal.actions_of(index))
            self.exact = journal.settle(index, digest) or self.exact
        return self._rows.observations

    def close(self) -> None:
        self._block.close()
