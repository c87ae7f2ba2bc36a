"""A2C: advantage policy gradient, the synchronous form of A3C.  Mnih et al. 2016, arXiv:1602.01783.

    A = GAE(gamma, lambda)      R = A + V      (no gradient through either)
    loss = -E[log pi(a|s) A] + c_v E[(V - R)^2] - c_e E[H(pi)]

Dims: T rollout steps, B envs. A fresh rollout, one update with all of it, and it is thrown away: the values of the loss
are those of the advantages. Discrete, continuous, masked and recurrent policies and padding are Models and columns, not
branches: the loss sees model(**rollout.only(model.reads)) and rollout.weights.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, StrictBool

from rlstudio.algos.parts.config import Learning, RunLength, SectionDefaults
from rlstudio.algos.parts.on_policy import OnPolicy
from rlstudio.core.batch import Batch
from rlstudio.core.config import Retired
from rlstudio.core.contracts import Group, Metrics, Runtime
from rlstudio.core.rng import Rng
from rlstudio.models.build import PolicyValueModel
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.distributions import entropy, log_prob
from rlstudio.ops.group import ALONE
from rlstudio.ops.means import standardize, weighted_mean
from rlstudio.ops.optimizer import Optimizer, RMSprop
from rlstudio.ops.returns import advantages

OPTIMIZERS = {"rmsprop": RMSprop, "adam": Optimizer}


class A2CConfig(Learning, RunLength):
    retired: ClassVar[dict[str, Retired]] = {
        "batch_size": Retired(None, "a2c has no minibatches: it learns from a whole rollout at once")
    }
    section_defaults: ClassVar[SectionDefaults] = {
        "env": {"num_envs": 1},
        "policy": {"network": {"hidden_sizes": [64, 64], "activation": "tanh", "normalize_observations": "auto"}},
    }

    steps_per_epoch: PositiveInt = Field(4000, le=10**9)
    """Environment steps per epoch, all environments together."""

    lr: PositiveFloat = Field(7e-4, le=10.0)
    """Learning rate at the start."""

    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """`rmsprop` (decay 0.99, epsilon 1e-5) as in the paper; `adam` as in the other algorithms."""

    rollout_steps: PositiveInt = 5
    """Steps per environment and update."""

    gae_lambda: float = Field(1.0, ge=0, le=1)
    """Trace decay of the advantage: 0 is one-step TD, 1 the paper's sum of all rewards of the rollout."""

    value_coef: NonNegativeFloat = 0.5
    """Weight of the value loss."""

    entropy_coef: NonNegativeFloat = 0.0
    """Weight of the entropy bonus."""

    normalize_advantages: bool = False
    """Standardise the advantages of each rollout."""

    normalize_rewards: StrictBool | Literal["auto"] = "auto"
    """Divide rewards by the running standard deviation of the discounted return; `auto` does so where actions are
    numbers."""


class A2C(OnPolicy):
    Config = A2CConfig

    def __init__(self, cfg: A2CConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        self.cfg = cfg
        super().__init__(runtime, network, rng, cfg.rollout_steps)
        self.optimizer = OPTIMIZERS[cfg.optimizer](self.model, cfg.lr, cfg.max_grad_norm, self.group)

    def learn(self, rollout: Batch) -> Metrics:
        loss, metrics = a2c_loss(self.model, rollout, self.cfg, self.group)
        metrics["grad_norm"] = self.optimizer.step(loss, weights=rollout.weights)
        return metrics

    def losses_of(self, rollout: Batch) -> Metrics:
        return a2c_loss(self.model, rollout, self.cfg, self.group)[1]


def a2c_loss(
    model: PolicyValueModel, rollout: Batch, cfg: A2CConfig, group: Group = ALONE
) -> tuple[torch.Tensor, Metrics]:
    policy, values_TB = model(**rollout.only(model.reads))
    log_probs_TB = log_prob(policy, rollout.actions)
    with torch.no_grad():
        next_values_TB = model.successor_values(rollout)
        advantages_TB, returns_TB = advantages(
            rollout, values_TB.detach(), next_values_TB, log_probs_TB.detach(), cfg.gamma, cfg.gae_lambda
        )
        if cfg.normalize_advantages:
            advantages_TB = standardize(advantages_TB, rollout.weights, group)
        if "behaviour_log_probs" in rollout:  # what older weights did counts as far as these would do it
            advantages_TB = advantages_TB * (log_probs_TB - rollout.behaviour_log_probs).exp().clamp(max=1.0)

    policy_loss = -weighted_mean(log_probs_TB * advantages_TB, rollout.weights)
    value_loss = weighted_mean((values_TB - returns_TB).square(), rollout.weights)
    with torch.set_grad_enabled(cfg.entropy_coef > 0):  # without weight there is no gradient to compute
        mean_entropy = weighted_mean(entropy(policy), rollout.weights)
    loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * mean_entropy
    metrics = {"loss": loss, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": mean_entropy}
    return loss, {name: value.detach() for name, value in metrics.items()}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("a2c")
