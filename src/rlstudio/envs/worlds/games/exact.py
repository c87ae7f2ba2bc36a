"""Games small enough to know every position: best play by backward induction, and how any two strategies fare, exactly.

    worth(position, choice) = what the mover is paid where that ends the game, else -max_b worth(following, b)

Positions are listed level by level, after as many moves each, once however they are reached: tic-tac-toe has 4,520 in
which the game goes on. A game is one of two players by turns whose World shows an action mask and has no randomness.

Dims: N positions of a level, A choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK
from rlstudio.core.contracts import World
from rlstudio.core.errors import Incompatible
from rlstudio.envs.worlds.kernel import NUMPY, empty_rows, write

LARGEST = 100_000
"""Positions of a level; connect four has more from its ninth move on."""


@dataclass(frozen=True)
class Level:
    """Positions in which the game goes on after equally many moves."""

    views: dict[str, np.ndarray]  # what the mover observes, [N, ...] each
    allowed: np.ndarray  # [N, A] bool
    rewards: np.ndarray  # [N, A] of the mover, where the choice ends the game
    following: np.ndarray  # [N, A] which position of the next level; -1: the game is over, or the choice forbidden
    worth: np.ndarray  # [N, A] of the mover under best play of both; -inf of a forbidden choice

    def best(self) -> np.ndarray:
        """The choices [N, A] that are worth most."""
        return cast("np.ndarray", self.worth == self.worth.max(1, keepdims=True))


class Results(NamedTuple):
    """Of the first player: probabilities, or numbers of games."""

    wins: float
    draws: float
    losses: float


Strategy = Callable[[Level], np.ndarray]
"""How likely each choice is in each position, [N, A]."""


def solve(world: World[np.ndarray]) -> list[Level]:
    """Every level of the game from its start to its last; Incompatible where one has too many positions."""
    forward: list[Level] = []
    states = world.initial(np.zeros((1, world.noise_size)), world.params, NUMPY)
    while len(states):
        if len(states) > LARGEST:
            raise Incompatible(f"{world.id}: more than {LARGEST:,} positions after {len(forward)} moves; not solvable")
        level, states = _expand(world, states, len(forward) % 2)
        forward.append(level)
    levels: list[Level] = []
    values = np.zeros(1)  # of the next level, and last a place for -1
    for level in reversed(forward):
        worth = np.where(level.following >= 0, -values[level.following], level.rewards)
        worth = np.where(level.allowed, worth, -np.inf)
        levels.append(Level(level.views, level.allowed, level.rewards, level.following, worth))
        values = np.append(worth.max(1), 0.0)
    return levels[::-1]


def _expand(world: World[np.ndarray], states: np.ndarray, mover: int) -> tuple[Level, np.ndarray]:
    """The level of these states, and the states of the next one."""
    views = empty_rows(world.spaces.observation, (len(states),))
    observed = world.observe(states, world.params, NUMPY)
    assert isinstance(views, dict)
    assert isinstance(observed, dict)
    write(views, slice(None), {name: rows[:, mover] for name, rows in observed.items()})
    allowed = views[ACTION_MASK] != 0
    positions, choices = allowed.nonzero()
    after = world.dynamics(states[positions], np.stack((choices, choices), -1), world.params, NUMPY)
    goes_on = ~after.terminated[:, mover]
    following_states, numbers = np.unique(after.states[goes_on], axis=0, return_inverse=True)
    rewards, following = np.zeros(allowed.shape), np.full(allowed.shape, -1)
    rewards[positions, choices] = after.rewards[:, mover]
    following[positions[goes_on], choices[goes_on]] = numbers.reshape(-1)
    return Level(views, allowed, rewards, following, rewards), following_states


def outcomes(levels: Sequence[Level], first: Strategy, second: Strategy) -> Results:
    """What becomes of games between two strategies, position by position, nothing sampled."""
    totals = np.zeros(3)
    reached: np.ndarray = np.ones(1)
    for number, level in enumerate(levels):
        flow = reached[:, None] * (first, second)[number % 2](level)
        over = level.allowed & (level.following < 0)
        paid = level.rewards if number % 2 == 0 else -level.rewards
        totals += [flow[over & is_result].sum() for is_result in (paid > 0, paid == 0, paid < 0)]
        if number + 1 < len(levels):
            going = level.following >= 0
            reached = np.bincount(level.following[going], flow[going], len(levels[number + 1].allowed))
    return Results(*totals.tolist())


def every_choice(level: Level) -> np.ndarray:
    """Not probabilities: with both players so, `outcomes` counts games."""
    return level.allowed.astype(float)


def at_random(level: Level) -> np.ndarray:
    return _evenly(level.allowed)


def perfectly(level: Level) -> np.ndarray:
    """Any of the best choices, all alike."""
    return _evenly(level.best())


def by(act: Callable[[dict[str, np.ndarray]], np.ndarray]) -> Strategy:
    """The strategy of a function from observations to actions, such as `agent.act`."""
    return lambda level: np.eye(level.allowed.shape[1])[act(level.views)]


def _evenly(choices: np.ndarray) -> np.ndarray:
    return cast("np.ndarray", choices / choices.sum(1, keepdims=True))
