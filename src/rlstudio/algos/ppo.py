"""PPO: clipped policy gradient.  Schulman et al. 2017, arXiv:1707.06347.

    A = GAE(gamma, lambda)      R = A + V_old      r = pi(a|s) / pi_old(a|s)
    loss = -E[min(r A, clip(r, 1-eps, 1+eps) A)] + c_v E[(V - R)^2] - c_e E[H(pi)]

Dims: T rollout steps, B envs, N minibatch rows (of a recurrent Model: sequences [L, b]). Discrete, continuous, masked
and recurrent policies and padding are Models and columns, not branches: the loss sees model(**batch.only(model.reads))
and batch.weights.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, StrictBool

from rlstudio.algos.parts.config import SectionDefaults, TrainConfig
from rlstudio.algos.parts.on_policy import OnPolicy
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Group, Metrics, Runtime, Stateful
from rlstudio.core.rng import Rng
from rlstudio.data.collect.batcher import Batcher, check_sequences
from rlstudio.models.build import PolicyValueModel
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.distributions import entropy, log_prob, policy_change
from rlstudio.ops.group import ALONE
from rlstudio.ops.means import explained_variance, standardize, weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.returns import advantages, value_errors


class PPOConfig(TrainConfig):
    section_defaults: ClassVar[SectionDefaults] = {
        "env": {"num_envs": 8},
        "policy": {"network": {"hidden_sizes": [64, 64], "activation": "tanh", "normalize_observations": "numeric"}},
    }

    epochs: PositiveInt = Field(100, le=10**9)
    """Epochs of the run; each reports its metrics once."""

    steps_per_epoch: PositiveInt = Field(2048, le=10**9)
    """Environment steps per epoch, all environments together."""

    batch_size: PositiveInt = Field(128, le=10**7)
    """Rows of one minibatch."""

    lr_schedule: Literal["constant", "linear"] = "linear"
    """`linear` goes from `lr` to zero over the run."""

    rollout_steps: PositiveInt | None = None
    """Steps per environment and rollout; null takes a whole epoch (steps_per_epoch / num_envs)."""

    passes: PositiveInt = 20
    """How often each rollout is learned from."""

    sequence_length: PositiveInt | None = None
    """Steps through which a policy with memory learns; must divide `rollout_steps`; null takes the whole rollout."""

    gae_lambda: float = Field(0.98, ge=0, le=1)
    """Trace decay of the advantage: 0 is one-step TD, 1 is Monte Carlo."""

    clip: PositiveFloat = 0.2
    """How far the probability ratio may move before its gradient is cut."""

    value_coef: NonNegativeFloat = 0.5
    """Weight of the value loss."""

    entropy_coef: NonNegativeFloat = 0.0
    """Weight of the entropy bonus."""

    clip_value: PositiveFloat | None = None
    """How far a value may move from the old one before its gradient is cut; null: any distance."""

    normalize_rewards: StrictBool | Literal["auto"] = "auto"
    """Divide rewards by the running standard deviation of the discounted return; `auto` does so where actions are
    numbers."""

    target_kl: PositiveFloat | None = None
    """Once a minibatch's KL from the old policy exceeds it, later minibatches of this rollout change nothing."""


class PPO(OnPolicy):
    Config = PPOConfig

    def __init__(self, cfg: PPOConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        self.cfg = cfg
        steps = cfg.rollout_steps or cfg.steps_per_epoch // runtime.run_envs
        super().__init__(runtime, network, rng, steps)
        check_sequences(cfg.sequence_length, steps, self.agent.remembers)
        self.batcher = Batcher(cfg.batch_size, cfg.passes, rng.fork("batcher"), cfg.sequence_length)
        self.optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, self.group)

    def learn(self, rollout: Batch) -> Metrics:
        learned = self.with_advantages(rollout)
        rows, changes, stop = [], [], self.optimizer.never
        for batch in self.batcher(learned):
            loss, log_ratio_N, row = ppo_loss(self.model, batch, self.cfg, self.group)
            changes.append((log_ratio_N, batch.weights))
            if self.cfg.target_kl is not None:
                is_far = policy_change(changes[-1:], self.cfg.clip)["kl"] > self.cfg.target_kl
                stop = self.group.any(stop.logical_or(is_far))
            row["grad_norm"] = self.optimizer.step(loss, stop, batch.weights)
            rows.append(row)
            if stop.is_cpu and bool(stop):  # the same weights for less work; on a GPU asking would stall it
                break
        means = {name: torch.stack([row[name] for row in rows]).mean() for name in rows[0]}
        means["explained_variance"] = explained_variance(learned.values, learned.returns, learned.weights)
        return means | policy_change(changes, self.cfg.clip)

    @torch.no_grad()
    def with_advantages(self, rollout: Batch) -> Batch:
        """With what the passes compare to: the old policy, and how much better it did than its values said."""
        flat = rollout.flatten()
        policy, values_N = self.model(**flat.only(self.model.reads))
        values_TB, log_probs_TB = values_N.view(rollout.shape), log_prob(policy, flat.actions).view(rollout.shape)
        next_values_TB = self.model.successor_values(rollout)
        advantages_TB, returns_TB = advantages(
            rollout, values_TB, next_values_TB, log_probs_TB, self.cfg.gamma, self.cfg.gae_lambda
        )
        old_TB = rollout.get("behaviour_log_probs", log_probs_TB)
        return rollout.without("next_observations", "rewards", "terminated", "truncated").with_(
            log_probs=old_TB, values=values_TB, advantages=advantages_TB, returns=returns_TB
        )

    def losses_of(self, rollout: Batch) -> Metrics:
        learned = self.with_advantages(rollout).flatten()
        _, log_ratio_N, metrics = ppo_loss(self.model, learned, self.cfg, self.group)
        return metrics | policy_change([(log_ratio_N, learned.weights)], self.cfg.clip)

    def stateful(self) -> dict[str, Stateful]:
        return {**super().stateful(), "batcher": self.batcher}


def ppo_loss(
    model: PolicyValueModel, batch: Batch, cfg: PPOConfig, group: Group = ALONE
) -> tuple[torch.Tensor, torch.Tensor, Metrics]:
    """The loss, how far each row's log-probability is from the old one [N], and what to report."""
    policy, values_N = model(**batch.only(model.reads))
    log_ratio_N = log_prob(policy, batch.actions) - batch.log_probs
    ratio_N = log_ratio_N.exp()
    advantages_N = standardize(batch.advantages, batch.weights, group)

    clipped_N = ratio_N.clamp(1 - cfg.clip, 1 + cfg.clip)
    policy_loss = -weighted_mean(torch.minimum(ratio_N * advantages_N, clipped_N * advantages_N), batch.weights)
    value_loss = weighted_mean(value_errors(values_N, batch.returns, batch.values, cfg.clip_value), batch.weights)
    mean_entropy = weighted_mean(entropy(policy), batch.weights)
    loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * mean_entropy
    metrics = {"loss": loss, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": mean_entropy}
    return loss, log_ratio_N.detach(), {name: value.detach() for name, value in metrics.items()}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("ppo")
