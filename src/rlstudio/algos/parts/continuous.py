"""What the algorithms that learn values of continuous actions share: settings, replay, and the loss of twin values."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from rlstudio.agents.bounded import BoundedAgent
from rlstudio.algos.parts.config import OffPolicyConfig, SectionDefaults
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import DataSource, Explore, Metrics, Runtime
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, describe
from rlstudio.data.collect.action_noise import RandomStart
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.means import weighted_mean


class ContinuousConfig(OffPolicyConfig):
    # Networks and buffer of SAC's second paper and of TD3's code; the peers took them over.
    section_defaults: ClassVar[SectionDefaults] = {
        "env": {"num_envs": 1},
        "policy": {"network": {"hidden_sizes": [256, 256], "activation": "relu"}},
        "buffer": {"capacity": 1_000_000},
    }

    learning_starts: PositiveInt = 100
    """Environment steps before the first update."""

    max_grad_norm: PositiveFloat | None = None
    """Gradients of the q networks, and those of the policy, are scaled down to this norm; null switches it off."""

    random_steps: int | None = Field(None, ge=0)
    """Environment steps at the start with uniformly random actions; null takes `learning_starts`."""


def check_fit(algo: str, runtime: Runtime, network: NetworkConfig) -> Box:
    """The action space, if these algorithms work with it."""
    actions = runtime.spaces.action
    if not isinstance(actions, Box):
        raise Incompatible(f"{algo} needs Box actions; the env takes {describe(actions)}: try ppo or dqn")
    if network.normalize_observations:
        raise Incompatible(
            f"policy.network.normalize_observations: {algo} keeps no running statistics; set it to false"
        )
    return actions


def replay_source(
    cfg: ContinuousConfig, runtime: Runtime, agent: BoundedAgent, rng: Rng, noise: Explore | None = None
) -> DataSource:
    """A random start, then the agent with `noise` on top, into replay; samples out of it."""
    actions = runtime.spaces.action
    assert isinstance(actions, Box)
    random_steps = cfg.learning_starts if cfg.random_steps is None else cfg.random_steps
    explore = RandomStart(actions, random_steps, noise)
    return runtime.replay(agent, rng, cfg.replay_plan, explore)


def twin_loss(q_2N: Tensor, next_values_N: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
    """Both networks towards r + gamma^n V(s'): a time limit bootstraps, a death does not."""
    targets_N = batch.rewards + batch.discounts * next_values_N * (~batch.terminated).float()
    loss = 0.5 * weighted_mean((q_2N - targets_N).square().sum(0), batch.weights)
    value = loss.detach()  # `loss` is what the first optimizer follows, in every algorithm
    return loss, {"loss": value, "q_loss": value, "q": q_2N.detach().mean(), "target": targets_N.mean()}


def not_finite(norm: Tensor) -> Tensor:
    """Whether an optimizer that found this norm left its weights alone. NaN compares false, like infinity."""
    return torch.logical_not(norm < torch.inf)
