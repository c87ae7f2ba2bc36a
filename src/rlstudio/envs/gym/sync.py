"""Gymnasium envs in this process (`vectorization: sync`): the quickest way for envs that step in well under 0.3 ms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstudio.core.contracts import Array, State, Step
from rlstudio.envs.gym.env_block import EnvBlock
from rlstudio.envs.gym.plain_blocks import PlainBlocks
from rlstudio.envs.gym.probe import used_differs
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.replay.first_steps import first_difference
from rlstudio.envs.gym.replay.replay_log import FirstSteps, Journal
from rlstudio.envs.gym.rows import Buffers
from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.params.draw import Draw
from rlstudio.envs.params.episodes import EpisodeParams, position_of, required
from rlstudio.envs.seeds import episode_name


class GymnasiumVecEnv:
    """The arrays of a Step are reused by the next one; `exact` turns into a reason when a replay did not match."""

    vectorization = "sync"
    agents = 1
    restart_reasons = None

    def __init__(self, recipe: Recipe, num_envs: int, seed: int, first_env: int = 0) -> None:
        """In the run these envs have the numbers from `first_env` on."""
        with recipe.opened() as env:
            self.spaces = convert_spaces(env, recipe.cfg.id, recipe.cfg.infos)
        self.num_envs = num_envs
        self.exact: str | None = None
        self._rows = rows = Buffers(self.spaces, num_envs)
        rebuild = used_differs(recipe, self.spaces)
        self._block = EnvBlock(recipe, self.spaces, rows, seed, first_env, rebuild=rebuild, draw=recipe.draw)
        self._id, self._first_env = recipe.cfg.id, first_env
        self._made_from = (PlainBlocks(recipe), self.spaces, seed, rebuild)
        self.episode_params = None if recipe.draw is None else EpisodeParams(recipe.draw, seed, num_envs, first_env)
        self._first_draw = recipe.draw  # of the steps that are played again
        self._journal = Journal(rows, first_env)
        self._quiet = rows.quiet_step()

    def reset(self) -> Array:
        self._block.reset()
        self._journal.restart()
        if self.episode_params is not None:
            self.episode_params.begin(np.arange(self.num_envs), self._journal.episodes)
            self._first_draw = self.episode_params.draw
        return self._rows.observations

    def step(self, actions: np.ndarray) -> Step:
        self._block.step(actions)
        step, ended = self._rows.outcome(self._quiet)
        self._journal.record(actions, ended)
        if ended is not None and self.episode_params is not None:
            self.episode_params.follow(ended, self._journal.episodes)
        return step

    def set_draw(self, draw: Draw) -> None:
        params = required(self.episode_params, self._id)
        params.set_draw(draw)
        self._block.draw = params.draw
        self._journal.stop_noting()

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return episode_name(self._made_from[2], self._first_env + env, int(self._journal.episodes[env]) - ago)

    @property
    def restarted(self) -> Sequence[int]:
        return self._journal.restarted

    def position(self) -> State:
        """The first one after some steps also replays them: `exact` then says whether the env repeats itself."""
        steps = self._journal.take_first_steps()
        if steps is not None:
            self.exact = self._replayed(steps) or self.exact
        return self.unchecked_position()

    def unchecked_position(self) -> State:
        """The position, without trying out whether the envs repeat themselves."""
        return {**self._journal.position(), **position_of(self.episode_params)}

    def _replayed(self, steps: FirstSteps) -> str | None:
        return first_difference(steps, *self._made_from, draw=self._first_draw, first=self._first_env)

    def seek(self, position: State) -> Array:
        journal = self._journal
        journal.adopt(position)
        params = self.episode_params
        if params is not None:
            params.seek(position.get("params"), journal.episodes)
            self._block.draw = params.draw
        self.exact = None
        for index in range(self.num_envs):
            values = None if params is None else params.of(index)
            digest = self._block.place(index, int(journal.episodes[index]), journal.actions_of(index), values)
            self.exact = journal.settle(index, digest) or self.exact
        return self._rows.observations

    def close(self) -> None:
        self._block.close()
