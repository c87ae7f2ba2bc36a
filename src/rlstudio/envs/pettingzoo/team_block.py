"""PettingZoo environments stepped one after the other into rows of given arrays: for many agents what `EnvBlock` is for
one. The vector in this process and every worker process share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

import numpy as np

from rlstudio.core.errors import RLStudioError
from rlstudio.envs.gym.env_block import describe_fault, digest_of, fault_of
from rlstudio.envs.gym.recipe import close_quietly
from rlstudio.envs.gym.rows import row_views
from rlstudio.envs.params.draw import Draw
from rlstudio.envs.pettingzoo.games import AecGame, CycleGame, ParallelGame
from rlstudio.envs.pettingzoo.recipe import PettingZooEnv, PettingZooRecipe
from rlstudio.envs.pettingzoo.team_rows import TeamBuffers
from rlstudio.envs.seeds import EpisodeNoise

AnyGame = ParallelGame | CycleGame | AecGame
P = ParamSpec("P")
T = TypeVar("T")


def without_checks(env: PettingZooEnv) -> PettingZooEnv:
    """The env inside of PettingZoo's wrappers that only look whether calls come in order and choices exist. Both hold
    here, and each wrapper makes every attribute several calls."""
    from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper

    while type(env) in (AssertOutOfBoundsWrapper, OrderEnforcingWrapper):
        env = env.env
    return env


class TeamBlock:
    """Envs `first, first + 1, ...`; `rows` are the arrays of exactly these envs."""

    draw: Draw | None = None  # nothing is drawn here

    def __init__(
        self,
        recipe: PettingZooRecipe,
        rows: TeamBuffers,
        seed: int,
        first: int = 0,
        rebuild: bool = False,
        watch: Callable[[int], None] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """`rebuild` makes a fresh env for every episode; `watch` is called with the env about to run."""
        self._recipe, self._rows, self._first, self._rebuild = recipe, rows, first, rebuild
        self._watch = watch
        self._render_mode = render_mode
        self._limit = recipe.limit or float("inf")
        count = len(rows.rewards)
        self._seeds = EpisodeNoise(seed, first + count, 1)
        self.games: list[AnyGame | None] = [None] * count
        self._episodes = [0] * count
        self._elapsed = [0] * count
        self._current = 0

    def reset(self) -> None:
        """Every env at the start of its episode 0, as a fresh object."""
        for index in range(len(self.games)):
            self.begin(index, 0, fresh=True)

    def step(self, actions: np.ndarray) -> None:
        """One step of each env, by the actions [envs, agents, ...], into the rows."""
        rows = self._rows
        rows.clear()
        for index in range(len(self.games)):
            if self.advance(index, actions[index]):
                rows.over[index] = True
                self.begin(index, self._episodes[index] + 1, self._rebuild)

    def advance(self, index: int, actions: np.ndarray) -> bool:
        """Whether the episode is over."""
        game = self.games[index]
        assert game is not None, "an env is stepped before its first reset"
        self._current = index
        if self._watch is not None:
            self._watch(index)
        self._elapsed[index] += 1
        try:
            game.step(actions)
            if self._elapsed[index] >= self._limit:
                game.cut()
        except (Exception, SystemExit) as error:
            raise self._fault(actions, error) from error
        return game.is_over

    def place(
        self, index: int, episode: int, actions: np.ndarray, params: Mapping[str, float] | None = None
    ) -> int | None:
        """A fresh env after `actions` of `episode`, and the digest of what it showed on the way.

        None when the episode ended on the way: this env does not repeat itself, and now stands at the episode's start.
        """
        self.begin(index, episode, fresh=True)
        views = list(row_views(self._rows.observations, index))
        digest = digest_of(views)
        for joint in actions:
            if self.advance(index, joint):
                self.begin(index, episode, fresh=True)
                return None
            digest = digest_of(views, digest)
        return digest

    def begin(self, index: int, episode: int, fresh: bool, seed: int | None = None) -> None:
        """Start an episode; with its own seed where that is not the one of (seed, env, episode)."""
        self._current = index
        self._episodes[index], self._elapsed[index] = episode, 0
        if self._watch is not None:
            self._watch(index)
        self._guarded(self._reset, index, episode, fresh, seed)

    def _reset(self, index: int, episode: int, fresh: bool, seed: int | None) -> None:
        game = self.games[index]
        if game is None or fresh:
            if game is not None:
                close_quietly(game.env)
            self.games[index] = game = self._made(index)
        game.reset(self._seeds.seed(self._first + index, episode) if seed is None else seed)
        if game.is_over:
            raise ValueError("reset() leaves nobody in `agents`")

    def _made(self, index: int) -> AnyGame:
        from pettingzoo import ParallelEnv
        from pettingzoo.utils.conversions import aec_to_parallel_wrapper

        recipe = self._recipe
        env = recipe.build(self._render_mode)
        columns = (recipe.team, self._rows, index, recipe.cfg)
        if type(env) is aec_to_parallel_wrapper:
            return CycleGame(without_checks(env.aec_env), *columns)
        if isinstance(env, ParallelEnv):
            return ParallelGame(env, *columns)
        return AecGame(without_checks(env), *columns)

    def close(self) -> None:
        for index, game in enumerate(self.games):
            self.games[index] = None
            if game is not None:
                close_quietly(game.env)

    def _guarded(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return call(*arguments, **named)
        except (Exception, SystemExit) as error:
            raise self._fault(None, error) from error

    def _fault(self, actions: object, error: BaseException) -> RLStudioError:
        index = self._current
        env, episode, elapsed = self._first + index, self._episodes[index], self._elapsed[index]
        seed = self._seeds.seed(env, episode)
        id = self._recipe.cfg.id
        return fault_of(error, lambda what: describe_fault(id, env, episode, elapsed, seed, actions, what))
