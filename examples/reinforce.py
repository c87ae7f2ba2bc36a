"""REINFORCE: the plain policy gradient.  Williams 1992, doi:10.1007/BF00992696.

    G_t = r_t + gamma G_{t+1}        loss = -E[log pi(a|s) standardized(G)]

Dims: T rollout steps, B envs, N rows.
"""

import torch
from pydantic import PositiveFloat, PositiveInt

from rlstudio.agents.policy import PolicyAgent
from rlstudio.algos.parts.config import TrainConfig
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.models.build import build_model
from rlstudio.models.policies.distributions import entropy, log_prob
from rlstudio.models.policies.policy_value import PolicyOnly
from rlstudio.ops.means import standardize, weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.returns import discounted_sums


class ReinforceConfig(TrainConfig):
    lr: PositiveFloat = 3e-3
    """Learning rate at the start."""

    rollout_steps: PositiveInt = 512
    """Steps per environment and rollout; an episode that goes on beyond it is valued too low."""


class Reinforce(Trainer):
    Config = ReinforceConfig
    off_policy = False
    discrete = None

    def __init__(self, cfg, runtime, network, rng):
        self.cfg = cfg
        self.model = build_model(PolicyOnly, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.agent = PolicyAgent(self.model, runtime.spaces)
        self.source = runtime.stream(self.agent, rng, cfg.rollout_steps)
        self.group = runtime.group
        self.optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, self.group)

    def update(self, rollout):
        loss, metrics = reinforce_loss(self.model, self.with_returns(rollout), self.group)
        return metrics | {"grad_norm": self.optimizer.step(loss, weights=rollout.weights)}

    def losses(self, rollout):
        return reinforce_loss(self.model, self.with_returns(rollout), self.group)[1]

    def with_returns(self, rollout: Batch) -> Batch:
        """The sum of rewards to the end of the episode, or of the rollout where the episode goes on."""
        decay_TB = self.cfg.gamma * (~rollout.dones).float()
        return rollout.with_(returns=discounted_sums(rollout.rewards, decay_TB)).flatten()

    def stateful(self):
        return {"model": self.model, "optimizer": self.optimizer, "source": self.source}


def reinforce_loss(model, batch, group):
    policy = model(**batch.only(model.reads))
    gains_N = standardize(batch.returns, batch.weights, group)
    loss = -weighted_mean(log_prob(policy, batch.actions) * gains_N, batch.weights)
    with torch.no_grad():
        mean_entropy = weighted_mean(entropy(policy), batch.weights)
    return loss, {"loss": loss.detach(), "entropy": mean_entropy}
