"""The loop of acting, step after step, outside training: evaluation, datasets, films and parity iterate over it.

Greedy, unless `vary` changes the actions. What an agent remembers of an episode is forgotten when the episode ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from rlstudio.core.contracts import Acted, Array, Carried, Player, Step
from rlstudio.core.errors import Incompatible
from rlstudio.core.host.process import PULSE
from rlstudio.core.spaces import Box, Spaces
from rlstudio.data.collect.carry import without_rows

Vary = Callable[[Array, np.ndarray], np.ndarray]
"""Observations and the agent's actions -> the actions to take instead."""


class Stepping(Protocol):
    """The part of a VecEnv that is needed to play on from given observations."""

    num_envs: int

    def step(self, actions: np.ndarray) -> Step: ...


class Played(NamedTuple):
    """One step of all environments. Valid until the next one, except `observations`, which is the reader's own."""

    observations: Array  # acted on
    carry: Carried | None  # what the agent remembered when it acted
    acted: Acted  # the agent's answer
    actions: np.ndarray  # what was done: the agent's actions, or what `vary` made of them
    step: Step
    ended: np.ndarray  # the environments whose episode ended with this step
    rounds: np.ndarray  # [B] which of its episodes each environment played in this step, from 0
    lengths: np.ndarray  # [B] steps of that episode so far, this one included; of agents that wait, their own actions


def play(agent: Player, env: Stepping, observations: Array, vary: Vary | None = None) -> Iterator[Played]:
    """Act in `env`, which is at the start of its episodes, and on through one episode after the other, without end."""
    _refuse_another_shape(agent, observations)
    rounds, lengths = np.zeros(env.num_envs, np.int64), np.zeros(env.num_envs, np.int64)
    carry: Carried | None = None
    while True:
        acted = agent.step(observations, carry)
        acted_on = each(np.array, observations)  # the environments write the next ones into the same arrays
        actions = acted.actions if vary is None else vary(acted_on, acted.actions)
        step = env.step(actions)
        PULSE.others += 1
        lengths += 1 if step.active is None else step.active
        (ended,) = np.logical_or(step.terminated, step.truncated).nonzero()
        yield Played(acted_on, carry, acted, actions, step, ended, rounds, lengths)
        observations, carry = step.observations, acted.carry
        if len(ended):
            carry = without_rows(carry, ended)
            rounds[ended] += 1
            lengths[ended] = 0


def _refuse_another_shape(agent: Player, observations: Array) -> None:
    """An environment of the same name may be another one here, and the config of a bundle may name another."""
    spaces = getattr(agent, "spaces", None)
    space = spaces.observation if isinstance(spaces, Spaces) else None
    if isinstance(space, Box) and not isinstance(observations, dict) and observations.shape[1:] != space.shape:
        raise Incompatible(
            f"the environment shows observations of shape {observations.shape[1:]}, the policy was made for"
            f" {space.shape}: it was trained on another environment, or on another version of this one"
        )


def each(function: Callable[[np.ndarray], np.ndarray], observations: Array) -> Array:
    """The function of an observation's array, or of each of its arrays where it is a dict."""
    if isinstance(observations, dict):
        return {name: function(part) for name, part in observations.items()}
    return function(observations)
