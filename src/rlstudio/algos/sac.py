"""SAC: soft actor-critic, off-policy learning of a random policy.  Haarnoja et al. 2018, arXiv:1801.01290, 1812.05905.

    V(s')   = min_i Q_target_i(s', a') - alpha log pi(a'|s')          a' ~ pi(.|s')
    q loss  = E[ sum_i (Q_i(s, a) - (sum_k gamma^k r_k + gamma^n V(s')))^2 / 2 ]
    policy  = E[ alpha log pi(a|s) - min_i Q_i(s, a) ]                a ~ pi(.|s), reparameterised
    alpha   = E[ -log alpha (log pi(a|s) + target entropy) ]          alpha detached everywhere else

Dims: N minibatch rows, D action numbers, 2 q networks. Densities are those of actions scaled to [-1, 1].
"""

from __future__ import annotations

from math import log
from typing import Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor

from rlstudio.agents.bounded import BoundedAgent
from rlstudio.algos.parts.continuous import ContinuousConfig, check_fit, not_finite, replay_source, twin_loss
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, Runtime, Stateful
from rlstudio.core.rng import Rng
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.action_values import TwinQ
from rlstudio.models.policies.continuous import SquashedPolicy
from rlstudio.models.policies.distributions import sample_with_log_prob
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.target import Target


class SACConfig(ContinuousConfig):
    temperature: PositiveFloat | Literal["auto"] = "auto"
    """Weight of the policy's entropy against the reward; `auto` learns it."""

    temperature_init: PositiveFloat = 1.0
    """Where a learned temperature starts."""

    target_entropy: float | Literal["auto"] = "auto"
    """Entropy, in nats, that a learned temperature holds the policy at; `auto`: minus the number of action
    dimensions."""


class SAC(Trainer):
    Config = SACConfig
    off_policy = True
    discrete = False
    action_kinds = ("Box",)

    def __init__(self, cfg: SACConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        actions = check_fit("sac", runtime, network)
        self.cfg = cfg
        self.model = build_model(SquashedPolicy, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.q = build_model(TwinQ, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.target = Target(self.q)
        self.agent = BoundedAgent(self.model, runtime.spaces)
        self.source = replay_source(cfg, runtime, self.agent, rng)
        self.optimizer = Optimizer(self.q, cfg.lr, cfg.max_grad_norm, runtime.group)
        self.policy_optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, runtime.group)
        fixed = cfg.temperature if isinstance(cfg.temperature, float) else None
        self.model.log_temperature.data.fill_(log(fixed or cfg.temperature_init))
        wanted = cfg.target_entropy if isinstance(cfg.target_entropy, float) else -float(actions.size)
        self.target_entropy = wanted if fixed is None else None
        self.rng = runtime.group.own(rng.fork("update"))

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        return (self.optimizer, self.policy_optimizer)

    def update(self, batch: Batch) -> Metrics:
        noise_2ND = self.noise(batch)
        loss, metrics = sac_q_loss(self.q, self.target.model, self.model, batch, noise_2ND[0])
        metrics["grad_norm"] = self.optimizer.step(loss, weights=batch.weights)
        bad = not_finite(metrics["grad_norm"])
        loss, row = sac_policy_loss(self.model, self.q, batch, noise_2ND[1], self.target_entropy)
        self.policy_optimizer.step(loss, bad, batch.weights)
        self.target.refresh(tau=self.cfg.tau, skip=bad)
        return metrics | row

    def noise(self, batch: Batch) -> Tensor:
        """Normal numbers that are a function of the update's number: [2, N, D]."""
        shape = (2, len(batch), self.model.bounds.size)
        numbers = self.rng.generator(self.optimizer.calls).standard_normal(shape, "float32")
        return torch.from_numpy(numbers).to(batch.device)

    def losses(self, batch: Batch) -> Metrics:
        noise_2ND = self.noise(batch)
        _, metrics = sac_q_loss(self.q, self.target.model, self.model, batch, noise_2ND[0])
        return metrics | sac_policy_loss(self.model, self.q, batch, noise_2ND[1], self.target_entropy)[1]

    def stateful(self) -> dict[str, Stateful]:
        models: dict[str, Stateful] = {"model": self.model, "q": self.q, "target": self.target}
        return models | {
            "optimizer": self.optimizer,
            "policy_optimizer": self.policy_optimizer,
            "source": self.source,
        }


def sac_q_loss(
    q: TwinQ, target: TwinQ, policy: SquashedPolicy, batch: Batch, noise_ND: Tensor
) -> tuple[Tensor, Metrics]:
    with torch.no_grad():
        next_actions_ND, log_probs_N = sample_with_log_prob(policy(batch.next_observations), noise_ND)
        next_q_N = target(batch.next_observations, next_actions_ND).amin(0)
        next_values_N = next_q_N - policy.log_temperature.exp() * log_probs_N
    return twin_loss(q(**batch.only(q.reads)), next_values_N, batch)


def sac_policy_loss(
    policy: SquashedPolicy, q: TwinQ, batch: Batch, noise_ND: Tensor, target_entropy: float | None
) -> tuple[Tensor, Metrics]:
    """The loss of the policy and, where it has an entropy to hold, of the temperature."""
    temperature = policy.log_temperature.detach().exp()
    actions_ND, log_probs_N = sample_with_log_prob(policy(batch.observations), noise_ND)
    policy_loss = weighted_mean(temperature * log_probs_N - q.lowest(batch.observations, actions_ND), batch.weights)
    entropy = -weighted_mean(log_probs_N.detach(), batch.weights)
    loss = policy_loss
    if target_entropy is not None:
        loss = loss + policy.log_temperature * (entropy - target_entropy)
    return loss, {"policy_loss": policy_loss.detach(), "entropy": entropy, "temperature": temperature}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("sac")
