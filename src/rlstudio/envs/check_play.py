"""Whole episodes with random actions on one object, as `check` plays them: what an env shows, pays and does wrong, each
kind of mistake once and with its place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import gymnasium
import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.contracts import Array
from rlstudio.core.errors import raised
from rlstudio.core.spaces import Box, Discrete, Leaf, MultiDiscrete, Space, Spaces
from rlstudio.core.spaces import Dict as DictSpace
from rlstudio.envs.gym.probe import PROBE_SEEDS, permitted, random_actions
from rlstudio.envs.gym.rows import Buffers, Misfit, deliverer, is_number

BLOCK = 256  # actions that are drawn at once
KINDS = {"error": "values", "warning": "bounds"}  # of what is wrong with an observation


@dataclass(frozen=True)
class Amount:
    """How much is played: at least so many whole episodes and so many steps, but no more than `most_steps`, and none
    after `seconds`."""

    episodes: int = 3
    steps: int = 1000
    most_steps: int = 10_000
    seconds: float = 10.0
    compared: int = 200  # steps of the episodes that are compared with each other

    @classmethod
    def of_steps(cls, steps: int) -> Amount:
        """Exactly so many, however long that takes."""
        return cls(0, steps, steps, float("inf"))


class Play:
    """One object, episode after episode. `findings` are texts that begin with their severity, by kind of mistake: its
    first word is the kind of the Finding."""

    def __init__(self, env: gymnasium.Env, spaces: Spaces, limit: int | None) -> None:
        self.steps = self.episodes = 0
        self.seconds = 0.0
        self.failed = False  # it raised: there is nothing more to be asked of it
        self.findings: dict[str, str] = {}
        self.info_keys: set[str] = set()
        self._env, self._spaces, self._limit = env, spaces, limit
        self._rows = Buffers(spaces, 1)
        self._deliver = deliverer(spaces.observation, self._rows.observations, 0)
        self._entries = list(entries_of(spaces.observation, self._rows.observations))
        self._elapsed, self._action = 0, None

    def run(self, amount: Amount) -> None:
        """Whatever the env does wrong becomes a finding; nothing is raised."""
        began, mask = time.monotonic(), ActionMask.of(self._spaces)
        try:
            self._reset()
            for action in self._actions():
                is_enough = self.episodes >= amount.episodes and self.steps >= amount.steps
                self.seconds = time.monotonic() - began
                if is_enough or self.steps >= amount.most_steps or self.seconds >= amount.seconds:
                    return
                self._step(permitted(mask, self._rows.observations, 0, action))
        except (Exception, SystemExit) as error:
            self.failed = True
            self._note("raised", f"error: raised {raised(error)}")

    def _actions(self) -> Iterator[int | np.ndarray]:
        for block in count():
            yield from random_actions(self._spaces, PROBE_SEEDS[0] + block, BLOCK)

    def _reset(self) -> None:
        self._elapsed, self._action = 0, None
        self._look(self._env.reset(seed=self._seed)[0])

    @property
    def _seed(self) -> int:
        return PROBE_SEEDS[0] + self.episodes

    def _step(self, action: int | np.ndarray) -> None:
        self._elapsed, self._action = self._elapsed + 1, np.asarray(action).tolist()
        observation, reward, terminated, truncated, info = self._env.step(action)
        self.steps += 1
        self.info_keys.update(str(key) for key, value in info.items() if is_number(value))
        self._look(observation)
        self._judge(reward, terminated, truncated)
        if terminated or truncated:
            self.episodes += 1
            self._reset()

    def _note(self, kind: str, text: str) -> None:
        """The first of each kind, with where it was."""
        if kind in self.findings:
            return
        place = f"episode {self.episodes} (seed {self._seed}), step {self._elapsed}"
        action = "" if self._action is None else f", action {self._action}"
        self.findings[kind] = f"{text}; {place}{action}"

    def _look(self, observation: object) -> None:
        try:
            self._deliver(observation)
        except Misfit as misfit:
            self._note("misfit", f"error: {misfit}")
            return
        for entry in self._entries:
            severity = entry.problem()
            if severity is not None and (kind := f"{KINDS[severity]} {entry.name}") not in self.findings:
                self._note(kind, f"{severity}: {entry.describe(severity)}")

    def _judge(self, reward: object, terminated: object, truncated: object) -> None:
        if not isinstance(reward, int | float | np.integer | np.floating):
            self._note("reward", f"error: the reward is a {type(reward).__name__}, not a number")
        elif not np.isfinite(reward):
            self._note("reward", f"error: a reward is not finite ({reward})")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool):
                self._note(name, f"warning: {name} is a {type(flag).__name__}, not a bool")
        if truncated and not terminated and self._limit is None:
            text = "info: the env truncates by itself; make sure it is a time limit and not a failure"
            self.findings.setdefault("truncates", text)


class ObservedEntry:
    """One entry of the observation: its newest value, compared with its space."""

    def __init__(self, name: str, leaf: Leaf, rows: np.ndarray) -> None:
        self.name, self._leaf, self._rows = name, leaf, rows
        self._low, self._high = _limits(leaf)

    def problem(self) -> str | None:
        """The severity: `error` where it is no number or no choice, `warning` where it leaves its bounds."""
        value = self._rows[0]
        # Bounds are rounded to float32 like the values, so no tolerance is needed. NaN is inside of nothing.
        if ((value >= self._low) & (value <= self._high)).all():
            return None
        is_beyond = isinstance(self._leaf, Box) and bool(np.isfinite(value).all())
        return "warning" if is_beyond else "error"

    def describe(self, severity: str) -> str:
        value = self._rows[0]
        if not isinstance(self._leaf, Box):
            return f"{self.name} is {value.tolist()}, which is not among its choices"
        where = ~((value >= self._low) & (value <= self._high)) if severity == "warning" else ~np.isfinite(value)
        index = tuple(np.argwhere(where)[0].tolist())
        number = f"{self.name}{list(index) if index else ''} ({value[index]:g})"
        return f"{number} leaves its bounds" if severity == "warning" else f"{number} is not finite"


def _limits(leaf: Leaf) -> tuple[np.ndarray, np.ndarray]:
    match leaf:
        case Box() if leaf.dtype.startswith("float"):  # infinite numbers are beyond every bound
            largest = np.finfo(leaf.dtype).max
            low, high = leaf.bounds()
            return np.maximum(low, -largest), np.minimum(high, largest)
        case Box():
            return leaf.bounds()
        case Discrete(n=n):
            return np.asarray(0), np.asarray(n - 1)
        case MultiDiscrete(nvec=nvec):
            return np.zeros(len(nvec), np.int64), np.asarray(nvec) - 1


def entries_of(space: Space, rows: Array) -> Iterator[ObservedEntry]:
    if isinstance(space, DictSpace):
        assert isinstance(rows, dict)
        for name, leaf in space.items():
            yield ObservedEntry(f"observation {name!r}", leaf, rows[name])
    else:
        assert isinstance(rows, np.ndarray)
        yield ObservedEntry("observation", space, rows)
