"""Tree search in games of two players by turns: `TreeSearch`, with the sign of a value turned at every move.

    q(a) = r - V(following)            r and V are those of whoever moves in their position: the discount is -1

The search starts from what the mover sees, so it needs no access to the environment: a World that can be searched has
`states_of(views)`, its states from the views of movers, and `is_seconds_turn(states)`. Dims as in `Dynamics`; views are
rows of all entries that a World shows, one after the other, by the order of its space.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Protocol, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.action_mask import ACTION_MASK
from rlstudio.core.contracts import Array, Outcome, World
from rlstudio.core.model.layers import Observations
from rlstudio.core.model.policies import Categorical, PlanPolicy, PlanValue
from rlstudio.core.spaces import Dict, Discrete
from rlstudio.envs.worlds.equations import TORCH
from rlstudio.planners.score import ReturnScore
from rlstudio.planners.tree import TreeSearch


@runtime_checkable
class TurnGame(World[Tensor], Protocol):
    """A World of two agents by turns without randomness, which shows an action mask to the one who moves."""

    def is_seconds_turn(self, states: Tensor) -> Tensor:
        """[...] bool: whether the second agent moves."""
        ...

    def states_of(self, views: Mapping[str, np.ndarray]) -> np.ndarray:
        """The states [N, S] in which a mover sees these."""
        ...


class GameDynamics:
    """Implements `core.contracts.Dynamics` with one particle; what is planned from are states."""

    reward_range = None

    def __init__(self, game: TurnGame) -> None:
        space = game.spaces.observation
        assert isinstance(space, Dict)
        self._game = game
        self._entries = [(name, entry.shape) for name, entry in space.items()]

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        return observations[None, :, None].expand(1, len(observations), candidates, observations.shape[-1])

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        joint = torch.stack((actions, actions), -1).expand(*states.shape[:-1], 2)
        second = self._game.is_seconds_turn(states)
        following, rewards, terminated, _ = self._game.dynamics(states, joint, self._game.params, TORCH)
        paid = torch.where(second, rewards[..., 1], rewards[..., 0])
        return Outcome(following, paid.to(states.dtype), 1.0 - terminated[..., 0].to(states.dtype))

    def observe(self, states: Tensor) -> Tensor:
        """What the mover sees, as rows [..., O]."""
        views, second = self._game.observe(states, self._game.params, TORCH), self._game.is_seconds_turn(states)
        assert isinstance(views, dict)
        parts = []
        for name, shape in self._entries:
            rows = views[name].flatten(states.dim()).to(states.dtype)  # [..., 2, numbers of the entry]
            assert rows.shape[-1] == prod(shape)
            parts.append(torch.where(second[..., None], rows[..., 1, :], rows[..., 0, :]))
        return torch.cat(parts, -1)

    def entries(self, rows: Tensor) -> dict[str, Tensor]:
        """Views again from rows."""
        sizes = [prod(shape) for _, shape in self._entries]
        parts = torch.split(rows, sizes, -1)
        named = zip(self._entries, parts, strict=True)
        return {name: part.reshape(*part.shape[:-1], *shape) for (name, shape), part in named}


class SearchPlayer:
    """Implements `SeatPlayer`: a tree search with a policy and a value as its guess; None: all choices alike, and
    nothing to come. Without `greedy` its first choices are varied by Gumbel noise, as they are in training."""

    def __init__(
        self, game: TurnGame, simulations: int, policy: PlanPolicy | None, value: PlanValue | None, greedy: bool = False
    ) -> None:
        action = game.spaces.action
        assert isinstance(action, Discrete)
        self._game, self._greedy = game, greedy
        self._dynamics = dynamics = GameDynamics(game)
        self._policy, self._value = policy, value
        self._search = TreeSearch(action.n, simulations, self._allowed_policy)
        self._score = ReturnScore(dynamics, gamma=-1.0, value=None if value is None else self._worth)

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        assert isinstance(observations, dict)
        states = torch.from_numpy(self._game.states_of(observations)).float()
        noise = np.zeros_like(uniform) if self._greedy else -np.log(-np.log(uniform))
        planned = self._search.plan(states, self._score, None, torch.from_numpy(noise).float())
        return planned.actions.numpy()

    def _allowed_policy(self, rows: Tensor) -> Categorical:
        views = self._dynamics.entries(rows)
        allowed = views[ACTION_MASK] != 0
        logits = torch.zeros_like(views[ACTION_MASK])
        if self._policy is not None:
            policy = self._policy(_as_observations(views))
            assert isinstance(policy, Categorical)
            logits = policy.logits
        return Categorical(logits.masked_fill(~allowed, -torch.inf))

    def _worth(self, rows: Tensor) -> Tensor:
        assert self._value is not None
        views = self._dynamics.entries(rows.flatten(0, -2))
        return self._value(_as_observations(views)).view(rows.shape[:-1])


def _as_observations(views: dict[str, Tensor]) -> Tensor:
    """Models take dicts of tensors where their space is one; the types of a plan speak of plain rows."""
    return cast("Tensor", cast("Observations", views))
