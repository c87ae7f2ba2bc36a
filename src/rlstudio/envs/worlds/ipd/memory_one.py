"""Strategies that remember one round, and what they are worth, in closed form.

A strategy is five probabilities of cooperating (p0, pCC, pCD, pDC, pDD): in the first round, and after each outcome of
the round before, the own action first. Two of them make a Markov chain over the four outcomes, whose discounted value
solves a linear system (Nowak & Sigmund 1993, Press & Dyson 2012). Values are per round: (1 - gamma) sum gamma^t r_t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlstudio.envs.worlds.ipd.axelrod_library import PREFIX, memory_one

OUTCOMES = ("CC", "CD", "DC", "DD")
SEATS_SWAPPED = [0, 1, 3, 2, 4]
"""The entries of a strategy by outcomes that the other one sees: CD and DC change places."""

STRATEGIES: dict[str, tuple[float, ...]] = {
    "always_cooperate": (1, 1, 1, 1, 1),
    "always_defect": (0, 0, 0, 0, 0),
    "grudger": (1, 1, 0, 0, 0),
    "random": (0.5, 0.5, 0.5, 0.5, 0.5),
    "suspicious_tit_for_tat": (0, 1, 0, 1, 0),
    "tit_for_tat": (1, 1, 0, 1, 0),
    "win_stay_lose_shift": (1, 1, 0, 0, 1),
}


@dataclass(frozen=True)
class Payoffs:
    """What a player gets: for mutual cooperation, as the only one who cooperates, as the only one who defects, for
    mutual defection."""

    reward: float = 1.0
    sucker: float = -0.5
    temptation: float = 2.0
    punishment: float = 0.0

    def __post_init__(self) -> None:
        if not self.temptation > self.reward > self.punishment > self.sucker:
            raise ValueError(
                "payoffs [reward, sucker, temptation, punishment] must keep temptation > reward > punishment > sucker,"
                f" or it is no prisoner's dilemma; got {list(self.by_outcome)}"
            )
        if not 2 * self.reward > self.temptation + self.sucker:
            raise ValueError(
                "payoffs must keep 2 reward > temptation + sucker, or taking turns beats cooperating;"
                f" got {list(self.by_outcome)}"
            )

    @property
    def by_outcome(self) -> tuple[float, float, float, float]:
        return self.reward, self.sucker, self.temptation, self.punishment


@dataclass(frozen=True)
class BestResponse:
    """The best that anyone can do against a known strategy: since that remembers one round, no longer memory helps."""

    value: float
    cooperates: tuple[bool, ...]
    """In the first round and after CC, CD, DC, DD."""


def strategy(given: str | Sequence[float]) -> np.ndarray:
    """A strategy by name, also one of the Axelrod library (`axelrod:TitForTat`), or by its five probabilities."""
    if isinstance(given, str) and given.startswith(PREFIX):
        return np.array(memory_one(given.removeprefix(PREFIX)))
    if isinstance(given, str):
        if given not in STRATEGIES:
            raise ValueError(f"opponent {given!r} is not one of pool, {', '.join(STRATEGIES)}, {PREFIX}NAME")
        return np.array(STRATEGIES[given], float)
    probabilities = np.array(given, float)
    if probabilities.shape != (5,) or not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ValueError(f"an opponent is a name or five probabilities (first round, CC, CD, DC, DD), got {given}")
    return probabilities


def trembling(strategies: np.ndarray, tremble: float) -> np.ndarray:
    """The same with a hand that errs: nothing is more certain than 1 - tremble."""
    return strategies.clip(tremble, 1 - tremble)


def value(one: np.ndarray, other: np.ndarray, payoffs: Payoffs, gamma: float) -> np.ndarray:
    """Per round, of `one` [..., 5] against `other` [..., 5], each by its own view."""
    mine, theirs = np.broadcast_arrays(one, other[..., SEATS_SWAPPED])
    first, following = _outcomes(mine[..., 0], theirs[..., 0]), _outcomes(mine[..., 1:], theirs[..., 1:])
    rewards = np.array(payoffs.by_outcome)[:, None]
    values = np.linalg.solve(np.eye(4) - gamma * following, np.broadcast_to(rewards, (*following.shape[:-1], 1)))
    per_round: np.ndarray = (1 - gamma) * (first * values[..., 0]).sum(-1)
    return per_round


def best_response(opponent: np.ndarray, payoffs: Payoffs, gamma: float) -> BestResponse:
    """By policy iteration over the five situations, in at most a few rounds."""
    cooperates, theirs = np.zeros(5), opponent[SEATS_SWAPPED]
    while True:
        chain = _outcomes(cooperates[1:], theirs[1:])
        values = np.linalg.solve(np.eye(4) - gamma * chain, np.array(payoffs.by_outcome))
        if_cooperating = theirs * values[0] + (1 - theirs) * values[1]
        if_defecting = theirs * values[2] + (1 - theirs) * values[3]
        better = np.where(if_cooperating > if_defecting + 1e-12, 1.0, 0.0)
        if np.array_equal(better, cooperates):
            first = max(if_cooperating[0], if_defecting[0])
            return BestResponse((1 - gamma) * float(first), tuple(bool(entry) for entry in better))
        cooperates = better


def _outcomes(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Probabilities of CC, CD, DC, DD [..., 4] from those of cooperating."""
    return np.stack((mine * theirs, mine * (1 - theirs), (1 - mine) * theirs, (1 - mine) * (1 - theirs)), -1)
