"""AgentPlayer: a trained policy on a seat of a game."""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import Agent, Array


class AgentPlayer:
    """Implements `SeatPlayer`. A policy is sampled as in training, `argmax(logits + Gumbel noise)`, or taken at its
    mode where it is `greedy`; values are always followed greedily."""

    def __init__(self, agent: Agent, *, greedy: bool = False) -> None:
        self.agent: Agent = agent
        self._samples = not greedy and getattr(agent, "rule", "") == "policy"

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        noise = -np.log(-np.log(uniform)) if self._samples else None
        return self.agent.step(observations, None, noise).actions
