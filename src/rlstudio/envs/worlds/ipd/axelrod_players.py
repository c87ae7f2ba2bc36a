"""A trained policy among the strategies of the Axelrod library: as one of its players, and its rank among others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rlstudio.core.contracts import Agent, Carried
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, describe
from rlstudio.envs.worlds.ipd.axelrod_library import library
from rlstudio.envs.worlds.ipd.memory_one import Payoffs
from rlstudio.envs.worlds.ipd.world import ROUNDS, SITUATIONS

AXELROD_PAYOFFS = Payoffs(3, 0, 5, 1)


class Standing(NamedTuple):
    rank: int
    name: str
    score: float
    """Payoff per round, over all opponents."""


def policy_player(agent: Agent, called: str = "RLStudio") -> Any:
    """An `axelrod.Player` that acts greedily by the policy, in matches and tournaments of that library too."""
    rounds = _history_of(agent)
    axelrod = library("axelrod", called)
    cooperate, defect = axelrod.Action.C, axelrod.Action.D

    class Trained(axelrod.Player):  # type: ignore[misc, name-defined]
        name = called
        classifier: ClassVar[dict[str, object]] = {
            "memory_depth": float("inf") if agent.remembers else rounds,
            "stochastic": False,
            "makes_use_of": set(),
            "long_run_time": False,
            "inspects_source": False,
            "manipulates_source": False,
            "manipulates_state": False,
        }

        def __init__(self) -> None:
            super().__init__()
            self.carry: Carried | None = None

        def strategy(self, opponent: Any) -> Any:
            past = zip(list(self.history)[-rounds:], list(opponent.history)[-rounds:], strict=True)
            outcomes = [4 - 2 * (mine is cooperate) - (theirs is cooperate) for mine, theirs in past]
            outcomes = [0] * (rounds - len(outcomes)) + outcomes
            acted = agent.step(np.eye(SITUATIONS, dtype=np.float32)[outcomes][None], self.carry)
            self.carry = acted.carry
            return cooperate if int(acted.actions[0]) == 1 else defect

    return Trained()


def round_robin(
    players: Sequence[Any],
    *,
    turns: int = ROUNDS,
    repetitions: int = 5,
    seed: int = 0,
    payoffs: Payoffs = AXELROD_PAYOFFS,
) -> list[Standing]:
    """Everybody meets everybody else, best first. Two that draw nothing meet once: they would repeat themselves."""
    totals, games = np.zeros(len(players)), np.zeros(len(players))
    rng = Rng(seed).fork("round-robin")
    for number, (one, other) in enumerate(combinations(range(len(players)), 2)):
        draws = players[one].classifier["stochastic"] or players[other].classifier["stochastic"]
        for repetition in range(repetitions if draws else 1):
            seeds = rng.at("match", number * repetitions + repetition).integers(2**31, size=2)
            paid = _match(players[one], players[other], turns, seeds.tolist(), payoffs)
            weight = 1.0 if draws else float(repetitions)  # every pair counts alike
            totals[[one, other]] += weight * np.array(paid)
            games[[one, other]] += weight
    scores = totals / np.maximum(games, 1)
    order = np.argsort(-scores, kind="stable")
    return [Standing(rank, players[i].name, float(scores[i])) for rank, i in enumerate(order.tolist(), 1)]


def _match(one: Any, other: Any, turns: int, seeds: Sequence[int], payoffs: Payoffs) -> tuple[float, float]:
    """What each got per round."""
    pair = one.clone(), other.clone()
    for player, seed in zip(pair, seeds, strict=True):
        player.set_match_attributes(length=-1)
        player.set_seed(seed)
    paid = payoffs.by_outcome
    totals = [0.0, 0.0]
    for _ in range(turns):
        first, second = pair[0].strategy(pair[1]), pair[1].strategy(pair[0])
        pair[0].update_history(first, second)
        pair[1].update_history(second, first)
        mine, theirs = first.name == "C", second.name == "C"
        totals[0] += paid[3 - 2 * mine - theirs]
        totals[1] += paid[3 - 2 * theirs - mine]
    return totals[0] / turns, totals[1] / turns


def _history_of(agent: Agent) -> int:
    """How many rounds the policy sees."""
    observation, action = agent.spaces.observation, agent.spaces.action
    if not (isinstance(observation, Box) and observation.shape[1:] == (SITUATIONS,) and action == Discrete(2)):
        raise Incompatible(
            f"the policy sees {describe(observation)} and takes {describe(action)}, so it was not trained in the"
            " iterated prisoner's dilemma; train one: rlctl launch -f configs/ipd/ppo.yaml"
        )
    return observation.shape[0]
