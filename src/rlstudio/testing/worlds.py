"""A world to plan in: its spaces, observations that it shows, and sequences of actions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.contracts import EnvFacts
from rlstudio.core.spaces import Box, Discrete, Space
from rlstudio.data.env_facts import EnvDescription
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env

ENVS, CANDIDATES, HORIZON = 3, 5, 4
NUMBERS, CHOICES = "Pendulum-v1", "CartPole-v1"


def facts(env_id: str) -> EnvFacts:
    world = EnvConfig(id=env_id)
    env = make_vec_env(world, 1, 0, vectorization="native")
    env.close()
    return EnvDescription(env.spaces, world)


def first_observations(env_id: str, count: int = ENVS) -> Tensor:
    """Where `count` episodes start [count, O]."""
    env = make_vec_env(EnvConfig(id=env_id), count, 0, vectorization="native")
    observations = env.reset()
    env.close()
    assert isinstance(observations, np.ndarray)
    return torch.from_numpy(observations.copy())


def sequences(actions: Space, envs: int = ENVS, candidates: int = CANDIDATES, horizon: int = HORIZON) -> Tensor:
    """Random ones [E, K, H, ...], in the units of a plan."""
    generator = torch.Generator().manual_seed(0)
    shape = (envs, candidates, horizon)
    if isinstance(actions, Discrete):
        return torch.randint(0, actions.n, shape, generator=generator)
    assert isinstance(actions, Box)
    return 2.0 * torch.rand((*shape, actions.size), generator=generator) - 1.0
