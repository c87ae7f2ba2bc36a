"""Plain Gymnasium envs stepped one after the other into rows of given arrays: the part that the in-process vector and
every worker process share.

Each episode is seeded by (seed, env, episode), an episode's last observation goes to `successors` and the first of the
next one to `observations` in the same step. Whatever an env does wrong becomes an EnvFault that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ParamSpec, SupportsFloat, TypeVar
from zlib import crc32

import gymnasium
import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.errors import EnvFault, RLStudioError, raised
from rlstudio.core.spaces import Spaces
from rlstudio.envs.gym.recipe import Recipe, close_quietly
from rlstudio.envs.gym.rows import Buffers, Misfit, deliverer, info_noter, leaves, row_views
from rlstudio.envs.gym.settings.param_env import ParamEnv
from rlstudio.envs.params.draw import Draw, sample
from rlstudio.envs.seeds import EpisodeNoise

StepFunction = Callable[[object], tuple[object, SupportsFloat, bool, bool, dict[str, object]]]
P = ParamSpec("P")
T = TypeVar("T")

TEXTS = frozenset({str, bytes})
"""NumPy reads the reward "1.0" as a number, and Python takes the text "false" for true."""


class EnvBlock:
    """Envs `first, first + 1, ...`; `rows` are the arrays of exactly these envs."""

    def __init__(
        self,
        recipe: Recipe,
        spaces: Spaces,
        rows: Buffers,
        seed: int,
        first: int = 0,
        rebuild: bool = False,
        watch: Callable[[int], None] | None = None,
        draw: Draw | None = None,
    ) -> None:
        """`rebuild` makes a fresh env for every episode; `watch` is called with the env about to run; parameters of the
        episodes come from `draw`, which may be replaced: it counts from each env's next episode on."""
        self._recipe, self._spaces, self._rows, self._first = recipe, spaces, rows, first
        self._rebuild = rebuild
        self._watch = watch
        self.draw, self._seed = draw, seed
        # Wrappers may count steps of their own (frame skip), so their time limit lies inside them; without wrappers
        # counting here saves a call per step.
        self._counts = not recipe.cfg.wrappers
        self._limit = (recipe.limit if self._counts else None) or float("inf")
        count = len(rows.rewards)
        self._seeds = EpisodeNoise(seed, first + count, 1)
        self._envs: list[gymnasium.Env | None] = [None] * count
        self._steps: list[StepFunction] = [_not_built] * count
        mask = ActionMask.of(spaces)
        self._deliver = [deliverer(spaces.observation, rows.observations, i, mask) for i in range(count)]
        self._deliver_last = [deliverer(spaces.observation, rows.successors, i) for i in range(count)]
        self._episodes = [0] * count
        self._clock = 0  # steps of the block; an env is at the clock since its start, and truncated when due
        self._started = [0] * count
        self._due: list[float] = [0] * count
        self._current = 0
        self._scalar = not leaves(rows.actions)[0].shape[1:]

    def reset(self) -> None:
        """Every env at the start of its episode 0, as a fresh object."""
        for index in range(len(self._envs)):
            self._guarded(self._begin, index, 0, True)

    def step(self, actions: np.ndarray) -> None:
        """One step of each env into the rows."""
        rows, watch = self._rows, self._watch
        rewards = rows.rewards
        rows.terminated.fill(False)
        rows.truncated.fill(False)
        self._clock = clock = self._clock + 1
        choices = self._choices(actions)
        index = 0
        try:
            for index, (step, choice, due, deliver) in enumerate(
                zip(self._steps, choices, self._due, self._deliver, strict=True)
            ):
                if watch is not None:
                    watch(index)
                observation, reward, terminated, truncated, _ = step(choice)
                if type(reward) in TEXTS:
                    raise Misfit(f"reward is the text {reward!r:.50}, not a number")
                rewards[index] = reward
                if terminated or truncated or clock >= due:
                    self._end(index, observation, terminated, truncated or clock >= due)
                else:
                    deliver(observation)
        except (Exception, SystemExit) as error:
            raise self._fault(index, choices[index], error) from error

    def _choices(self, actions: np.ndarray) -> list[object] | np.ndarray:
        """The actions one by one, as Gymnasium's own vector env passes them: NumPy integers, or rows of an array of
        their own, since an env that changes its action in place must not reach the caller's."""
        return list(actions) if self._scalar else actions.copy()

    def _end(self, index: int, observation: object, terminated: bool, truncated: bool) -> None:
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if type(flag) in TEXTS:
                raise Misfit(f"{name} is the text {flag!r:.50}, not a bool")
        self._rows.terminated[index] = terminated
        self._rows.truncated[index] = truncated
        self._deliver_last[index](observation)
        self._begin(index, self._episodes[index] + 1, self._rebuild)

    def place(
        self, index: int, episode: int, actions: np.ndarray, params: Mapping[str, float] | None = None
    ) -> int | None:
        """A fresh env after `actions` of `episode`, and the digest of what it showed on the way; `params` are those of
        the episode, where any are drawn.

        None when the episode ended on the way: this env does not repeat itself, and now stands at the episode's start.
        """
        self._guarded(self._begin, index, episode, True, params)
        views = list(row_views(self._rows.observations, index))
        digest = digest_of(views)
        for elapsed, action in enumerate(self._choices(actions), 1):
            if self._watch is not None:
                self._watch(index)
            observation, _, terminated, truncated, _ = self._guarded(self._steps[index], action)
            self._starts_at(index, self._clock - elapsed)
            if terminated or truncated or elapsed >= self._limit:
                self._guarded(self._begin, index, episode, True, params)
                return None
            self._guarded(self._deliver[index], observation)
            digest = digest_of(views, digest)
        return digest

    def close(self) -> None:
        for index, env in enumerate(self._envs):
            self._envs[index] = None
            if env is not None:
                close_quietly(env)

    def _begin(self, index: int, episode: int, fresh: bool, params: Mapping[str, float] | None = None) -> None:
        """Start an episode. `_current` lets a fault in here name the env."""
        self._current = index
        self._episodes[index] = episode
        self._starts_at(index, self._clock)
        if self._watch is not None:
            self._watch(index)
        env = self._envs[index]
        if env is None or fresh:
            if env is not None:
                close_quietly(env)
            self._envs[index] = env = self._recipe.build(time_limit=not self._counts)
            self._steps[index] = self._step_of(env, index)
        if self.draw is not None:
            assert isinstance(env, ParamEnv)
            env.assign(self._drawn(self.draw, index, episode) if params is None else params)
        observation, _ = env.reset(seed=self._seeds.seed(self._first + index, episode))
        self._deliver[index](observation)

    def _drawn(self, draw: Draw, index: int, episode: int) -> dict[str, float]:
        place = np.array([self._first + index]), np.array([episode])
        return {name: float(value[0]) for name, value in sample(draw, self._seed, *place)[1].items()}

    def _step_of(self, env: gymnasium.Env, index: int) -> StepFunction:
        """The env's own step; where keys of its info are kept, one that also notes them, so others pay nothing."""
        step: StepFunction = env.step
        if not self._spaces.infos:
            return step
        note = info_noter(self._rows.infos, index)

        def noted(action: object) -> tuple[object, SupportsFloat, bool, bool, dict[str, object]]:
            result = step(action)
            note(result[4])
            return result

        return noted

    def _starts_at(self, index: int, clock: int) -> None:
        self._started[index] = clock
        self._due[index] = clock + self._limit

    def _guarded(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return call(*arguments, **named)
        except (Exception, SystemExit) as error:
            raise self._fault(self._current, None, error) from error

    def _fault(self, index: int, action: object, error: BaseException) -> RLStudioError:
        return fault_of(error, lambda what: self.describe(what, index, action))

    def describe(self, what: str, index: int | None = None, action: object = None) -> str:
        """The line about one of its envs; without an index, about the one whose episode began last."""
        index = self._current if index is None else index
        env, episode = self._first + index, self._episodes[index]
        elapsed, seed = self._clock - self._started[index], self._seeds.seed(env, episode)
        return describe_fault(self._recipe.cfg.id, env, episode, elapsed, seed, action, what)


def fault_of(error: BaseException, describe: Callable[[str], str]) -> RLStudioError:
    """What an env did wrong, as an error of ours; `describe` makes the line about it."""
    if isinstance(error, RLStudioError):
        return error
    if isinstance(error, Misfit):
        return BrokenContract(describe(str(error)))
    return EnvFault(describe(f"raised {raised(error)}"))


def _not_built(action: object) -> tuple[object, SupportsFloat, bool, bool, dict[str, object]]:
    raise AssertionError("an env is stepped before its first reset")


class BrokenContract(EnvFault):
    """The env delivered what its spaces do not allow; trying again is pointless."""


def describe_fault(id: str, env: int, episode: int, step: int, seed: int, action: object, what: str) -> str:
    """The one line by which every broken env is reported."""
    printed = action.tolist() if isinstance(action, np.ndarray) else action
    return (
        f"env {env} ({id}): {what}; episode {episode} (seed {seed}), step {step}, "
        f"last action {'none' if printed is None else printed}"
    )


def digest_of(views: list[np.ndarray], before: int = 0) -> int:
    """Rolling checksum of an episode's observations."""
    for view in views:
        before = crc32(view.data, before)
    return before
