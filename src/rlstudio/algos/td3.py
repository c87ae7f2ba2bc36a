"""TD3: twin delayed deterministic policy gradient.  Fujimoto et al. 2018, arXiv:1802.09477.

    a'      = clip(mu_target(s') + clip(N(0, sigma^2), -c, c))                       target smoothing
    q loss  = E[ sum_i (Q_i(s, a) - (sum_k gamma^k r_k + gamma^n min_i Q_target_i(s', a')))^2 / 2 ]
    policy  = E[ -Q_1(s, mu(s)) ]                                  every `policy_delay` updates, and the targets with it

Dims: N minibatch rows, D action numbers, 2 q networks. Noise is in shares of half the width of each bound.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor

from rlstudio.agents.bounded import BoundedAgent
from rlstudio.algos.parts.continuous import ContinuousConfig, check_fit, not_finite, replay_source, twin_loss
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, Runtime, Stateful
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.data.collect.action_noise import GaussianNoise, OrnsteinUhlenbeck
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.action_values import TwinQ
from rlstudio.models.policies.continuous import DeterministicPolicy
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.target import Target


class TD3Config(ContinuousConfig):
    lr: PositiveFloat = Field(1e-3, le=10.0)
    """Learning rate at the start."""

    policy_delay: PositiveInt = 2
    """Updates of the q networks per update of the policy and of the targets."""

    noise: Literal["gaussian", "ornstein_uhlenbeck"] = "gaussian"
    """Exploration noise: independent at each step, or drifting through an episode (Ornstein-Uhlenbeck)."""

    noise_std: NonNegativeFloat = 0.1
    """Standard deviation of the noise, as a share of half the width of the action bounds."""

    noise_steps: PositiveFloat = 50.0
    """Steps over which drifting noise loses two thirds of its value."""

    target_noise: NonNegativeFloat = 0.2
    """Standard deviation of the noise on the target's actions, as the same kind of share."""

    target_noise_clip: NonNegativeFloat = 0.5
    """The noise on the target's actions is clipped to plus or minus this share."""


class TD3(Trainer):
    Config = TD3Config
    off_policy = True
    discrete = False
    action_kinds = ("Box",)

    def __init__(self, cfg: TD3Config, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        actions = check_fit("td3", runtime, network)
        if network.exploration != "independent":
            raise Incompatible("policy.network.exploration: td3 explores by train.noise; set it to independent")
        self.cfg = cfg
        self.model = build_model(DeterministicPolicy, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.q = build_model(TwinQ, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.target = Target(self.q)
        self.policy_target = Target(self.model)
        self.agent = BoundedAgent(self.model, runtime.spaces)
        drifts = cfg.noise == "ornstein_uhlenbeck"
        std = cfg.noise_std
        noise = OrnsteinUhlenbeck(actions, std, cfg.noise_steps) if drifts else GaussianNoise(actions, std)
        self.source = replay_source(cfg, runtime, self.agent, rng, noise)
        self.optimizer = Optimizer(self.q, cfg.lr, cfg.max_grad_norm, runtime.group)
        self.policy_optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, runtime.group)
        self.rng = runtime.group.own(rng.fork("update"))

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        return (self.optimizer, self.policy_optimizer)

    def update(self, batch: Batch) -> Metrics:
        loss, metrics = td3_q_loss(
            self.q, self.target.model, self.policy_target.model, batch, self.noise(batch), self.cfg
        )
        metrics["grad_norm"] = self.optimizer.step(loss, weights=batch.weights)
        if self.optimizer.calls % self.cfg.policy_delay == 0:
            bad = not_finite(metrics["grad_norm"])
            self.policy_optimizer.step(td3_policy_loss(self.model, self.q, batch), bad, batch.weights)
            self.policy_target.refresh(tau=self.cfg.tau, skip=bad)
            self.target.refresh(tau=self.cfg.tau, skip=bad)
        return metrics

    def noise(self, batch: Batch) -> Tensor:
        """Normal numbers that are a function of the update's number: [N, D]."""
        shape = (len(batch), self.model.bounds.size)
        numbers = self.rng.generator(self.optimizer.calls).standard_normal(shape, "float32")
        return torch.from_numpy(numbers).to(batch.device)

    def losses(self, batch: Batch) -> Metrics:
        noise_ND = self.noise(batch)
        return td3_q_loss(self.q, self.target.model, self.policy_target.model, batch, noise_ND, self.cfg)[1]

    def stateful(self) -> dict[str, Stateful]:
        models: dict[str, Stateful] = {"model": self.model, "q": self.q}
        return models | {
            "target": self.target,
            "policy_target": self.policy_target,
            "optimizer": self.optimizer,
            "policy_optimizer": self.policy_optimizer,
            "source": self.source,
        }


def td3_q_loss(
    q: TwinQ, target: TwinQ, policy_target: DeterministicPolicy, batch: Batch, noise_ND: Tensor, cfg: TD3Config
) -> tuple[Tensor, Metrics]:
    with torch.no_grad():
        noise_ND = (cfg.target_noise * noise_ND).clamp(-cfg.target_noise_clip, cfg.target_noise_clip)
        bounds = policy_target.bounds
        smoothed_ND = bounds.unit(policy_target(batch.next_observations)) + noise_ND
        next_actions_ND = bounds.actions(smoothed_ND.clamp(-1.0, 1.0))
        next_values_N = target(batch.next_observations, next_actions_ND).amin(0)
    return twin_loss(q(**batch.only(q.reads)), next_values_N, batch)


def td3_policy_loss(policy: DeterministicPolicy, q: TwinQ, batch: Batch) -> Tensor:
    return -weighted_mean(q.first(batch.observations, policy(batch.observations)), batch.weights)


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("td3")
