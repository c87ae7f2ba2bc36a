"""What the algorithms that learn values of choices share: their settings and the parts those choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from rlstudio.agents.q_value import QValueAgent
from rlstudio.algos.parts.config import OffPolicyConfig, SectionDefaults
from rlstudio.core.batch import Batch
from rlstudio.core.config import Config
from rlstudio.core.contracts import DataSource, PriorityPlan, Runtime
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete, describe
from rlstudio.data.collect.explore import EpsilonGreedy
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.q_values import QuantileValue, QValue

Model = QValue | QuantileValue


class PrioritizedConfig(Config):
    """Prioritised replay (Schaul et al. 2016)."""

    alpha: float = Field(0.6, ge=0, le=2)
    """How much the error decides which rows are drawn; 0 draws them uniformly."""

    beta: float = Field(0.4, ge=0, le=1)
    """How far rows that are drawn more often are weighed down, at the start of the run; 1: fully."""

    beta_end: float = Field(1.0, ge=0, le=1)
    """The same at the end of the run."""

    eps: float = Field(1e-6, ge=1e-12, le=1.0)
    """Added to every error, so that each row can be drawn again."""


class QLearningConfig(OffPolicyConfig):
    section_defaults: ClassVar[SectionDefaults] = {
        "env": {"num_envs": 1},
        "policy": {"network": {"hidden_sizes": [64, 64], "activation": "relu"}},
        "buffer": {"capacity": 100_000},
    }

    batch_size: PositiveInt = Field(64, le=10**7)
    """Rows of one minibatch."""

    lr: PositiveFloat = Field(1e-3, le=10.0)
    """Learning rate at the start."""

    max_grad_norm: PositiveFloat | None = 10.0
    """Gradients are scaled down to this norm; null switches it off."""

    train_every: PositiveInt = 4
    """Environment steps between two rounds of updates."""

    target_every: PositiveInt = 250
    """Updates between two refreshes of the target network."""

    tau: float = Field(1.0, gt=0, le=1)
    """How far a refresh moves the target towards the network; 1 copies it."""

    double: bool = True
    """Choose the next action with the network and value it with the target (van Hasselt et al. 2016)."""

    dueling: bool = False
    """One network for the value of a state and one for how the choices differ (Wang et al. 2016)."""

    prioritized: PrioritizedConfig | None = None
    """Prioritised replay: draw rows by the size of their error; null: draw uniformly; {}: the defaults."""

    epsilon_start: float = Field(1.0, ge=0, le=1)
    """Share of random actions at the start."""

    epsilon_end: float = Field(0.05, ge=0, le=1)
    """Share of random actions once `epsilon_fraction` of the run is over."""

    epsilon_fraction: float = Field(0.1, gt=0, le=1)
    """Part of the run over which epsilon falls."""


Choose = Callable[[Tensor, Model, Batch], Tensor]
"""(target's values of the successor [N, A], network, batch) -> the action taken there [N]."""


def own_choice(next_values_NA: Tensor, model: Model, batch: Batch) -> Tensor:
    """The action that the target network holds for the best, and values too high for it."""
    return next_values_NA.argmax(1)


def double_choice(next_values_NA: Tensor, model: Model, batch: Batch) -> Tensor:
    """The action that the network holds for the best."""
    return model.values(batch.next_observations).argmax(1)


CHOOSE: dict[bool, Choose] = {False: own_choice, True: double_choice}
"""By `double`."""


def check_fit(algo: str, runtime: Runtime, network: NetworkConfig) -> None:
    """Refuse what no Q-learning works with."""
    actions = runtime.spaces.action
    if not isinstance(actions, Discrete):
        raise Incompatible(f"{algo} needs Discrete actions; the env takes {describe(actions)}: try ppo")
    if network.normalize_observations:
        raise Incompatible(
            f"policy.network.normalize_observations: {algo} keeps no running statistics; set it to false"
        )


def replay_source(cfg: QLearningConfig, runtime: Runtime, agent: QValueAgent, rng: Rng) -> DataSource:
    """Epsilon-greedy steps into replay, samples out of it; exploration and priorities go by the run's progress."""
    actions, chosen = runtime.spaces.action, cfg.prioritized
    assert isinstance(actions, Discrete)
    priorities = None if chosen is None else PriorityPlan(chosen.alpha, chosen.beta, chosen.beta_end, chosen.eps)
    explore = EpsilonGreedy(actions, cfg.epsilon_start, cfg.epsilon_end, cfg.epsilon_fraction)
    return runtime.replay(agent, rng, replace(cfg.replay_plan, priorities=priorities), explore)
