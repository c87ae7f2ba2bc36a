"""The iterated prisoner's dilemma, against an opponent of one round's memory or between two learners.

    action 1 cooperates, 0 defects; rewards by the outcome CC, CD, DC, DD (the own action first): [1, -0.5, 2, 0]
    observation: the last `history` outcomes, oldest first, each one-hot of (none yet, CC, CD, DC, DD)
    the opponent: one of `STRATEGIES`, five probabilities of cooperating, or one drawn per episode from the pool of
    replicator dynamics; its hand trembles with probability `tremble`

The game does not end by itself; the round's number is not shown, since whoever knows the last round defects in it.
Learn with `train.gamma` as the pool was made with (0.95); an episode is cut after 200 rounds, when the discount has
left 4e-5 of a payoff. What can be had is known exactly: `memory_one.best_response`, `population.Pool.bound`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds import dice
from rlstudio.envs.worlds.ipd.memory_one import SEATS_SWAPPED, Payoffs, strategy, trembling
from rlstudio.envs.worlds.ipd.population import Pool, replicator_pool
from rlstudio.envs.worlds.kernel import one_hot

ROUNDS = 200
POOL = "pool"
SITUATIONS = 5
"""None yet, CC, CD, DC, DD: entries of a strategy and of a row of the history alike."""


class IteratedDilemma:
    """What both games share: payoffs, the history and how it is shown."""

    limit: int | None = ROUNDS
    params: Mapping[str, float] = {}

    def __init__(self, history: int, payoffs: Sequence[float] | None, tremble: float) -> None:
        if not 1 <= history <= ROUNDS:
            raise ValueError(f"history must be from 1 to {ROUNDS} rounds, got {history}")
        if not 0 <= tremble <= 0.5:
            raise ValueError(f"tremble must be a probability of at most 0.5, got {tremble}")
        if payoffs is not None and len(payoffs) != 4:
            raise ValueError(f"payoffs are [reward, sucker, temptation, punishment], got {list(payoffs)}")
        self.history = history
        self.payoffs = Payoffs() if payoffs is None else Payoffs(*payoffs)
        self.tremble = tremble
        self.spaces = Spaces(Box((history, SITUATIONS), "float32", (0.0,), (1.0,)), Discrete(2))

    def _paid(self, outcome: AnyArray) -> AnyArray:
        """For outcomes 1 to 4."""
        return _chosen(outcome, (0.0, *self.payoffs.by_outcome))


class IPD(IteratedDilemma):
    """One learner; the opponent is in the state: [dice, its five probabilities by what the learner sees, history]."""

    id = "rlstudio/IPD-v0"
    noise_size = dice.PAIR + 1
    agents = 1

    def __init__(
        self,
        opponent: str | Sequence[float] = POOL,
        history: int = 20,
        payoffs: Sequence[float] | None = None,
        tremble: float = 0.05,
        gamma: float = 0.95,
    ) -> None:
        """`gamma` matters to the pool alone: it says how much the future counted in its making."""
        super().__init__(history, payoffs, tremble)
        if not 0 <= gamma < 1:
            raise ValueError(f"gamma must be at least 0 and below 1, got {gamma}")
        self.opponents = (
            replicator_pool(self.payoffs, gamma, tremble)
            if opponent == POOL
            else Pool(trembling(strategy(opponent)[None], tremble), np.ones(1))
        )
        self.state_size = dice.PAIR + SITUATIONS + history
        self._by_learners_view = self.opponents.strategies[:, SEATS_SWAPPED].tolist()
        self._up_to = np.cumsum(self.opponents.weights)[:-1].tolist()

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        which = sum((noise[..., -1] >= edge) * 1.0 for edge in self._up_to) + xp.zeros_like(noise[..., -1])
        opponent = (_chosen(which, column) for column in zip(*self._by_learners_view, strict=True))
        none_yet = (xp.zeros_like(which) for _ in range(self.history))
        pair = dice.first_pair(noise[..., : dice.PAIR], xp)
        return xp.concatenate((pair, xp.stack((*opponent, *none_yet), -1)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        pair = dice.roll_pair(states[..., : dice.PAIR], xp)
        opponent, history = states[..., dice.PAIR : dice.PAIR + SITUATIONS], states[..., dice.PAIR + SITUATIONS :]
        probability = sum((history[..., -1] == k) * opponent[..., k] for k in range(SITUATIONS))
        cooperates = dice.unit_of_pair(pair) < probability
        outcome = _outcome(actions, cooperates)
        following = xp.concatenate((pair, opponent, history[..., 1:], outcome[..., None]), -1)
        return Transition(following, self._paid(outcome), xp.zeros_like(cooperates))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return one_hot(states[..., dice.PAIR + SITUATIONS :], SITUATIONS, xp)


class IPDDuel(IteratedDilemma):
    """Two learners, each of whom sees its own action first. State [dice, history by the first one's view]."""

    id = "rlstudio/IPDDuel-v0"
    noise_size = dice.PAIR
    agents = 2

    def __init__(self, history: int = 20, payoffs: Sequence[float] | None = None, tremble: float = 0.0) -> None:
        super().__init__(history, payoffs, tremble)
        self.state_size = dice.PAIR + history

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        pair = dice.first_pair(noise, xp)
        none_yet = (xp.zeros_like(pair[..., 0]) for _ in range(self.history))
        return xp.concatenate((pair, xp.stack(tuple(none_yet), -1)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        first = dice.roll_pair(states[..., : dice.PAIR], xp)
        second = dice.roll_pair(first, xp)
        erred = [dice.unit_of_pair(pair) < self.tremble for pair in (first, second)]
        one, other = ((actions[..., seat] == 1) ^ erred[seat] for seat in range(2))
        outcome, turned = _outcome(one, other), _outcome(other, one)
        following = xp.concatenate((second, states[..., dice.PAIR + 1 :], outcome[..., None]), -1)
        rewards = xp.stack((self._paid(outcome), self._paid(turned)), -1)
        return Transition(following, rewards, xp.zeros_like(rewards, dtype=xp.bool))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        mine = states[..., dice.PAIR :]
        theirs = _chosen(mine, tuple(map(float, SEATS_SWAPPED)))
        return one_hot(xp.stack((mine, theirs), -2), SITUATIONS, xp)


def _outcome(mine: AnyArray, theirs: AnyArray) -> AnyArray:
    """1 to 4 for CC, CD, DC, DD."""
    return 4.0 - 2.0 * mine - 1.0 * theirs


def _chosen(index: AnyArray, values: Sequence[float]) -> AnyArray:
    """values[index], without an array of whole numbers."""
    return cast(AnyArray, sum((index == k) * entry for k, entry in enumerate(values)))
