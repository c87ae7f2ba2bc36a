"""Weaker: the world's own equations with a motor that does less than it is told."""

from typing import Annotated

from pydantic import Field

from rlstudio.algos.parts.dynamics import DynamicsConfig
from rlstudio.envs.worlds.equations import dynamics_of


class WeakerConfig(DynamicsConfig):
    strength: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of an action that reaches the world."""


class Weaker:
    Config = WeakerConfig

    def __init__(self, cfg, env, rng):
        self.cfg = cfg
        self.equations = dynamics_of(env.env_config)
        self.reward_range = self.equations.reward_range

    def start(self, observations, candidates):
        return self.equations.start(observations, candidates)

    def step(self, states, actions):
        return self.equations.step(states, actions * self.cfg.strength)

    def observe(self, states):
        return self.equations.observe(states)
