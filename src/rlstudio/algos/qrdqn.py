"""QR-DQN: Q-learning of the whole distribution of returns, by its quantiles.  Dabney et al. 2018 (1710.10044).

    T_j = sum_k gamma^k r_k + gamma^n theta_target_j(s', a')    a' = argmax mean_j theta_target_j(s', .), or double
    loss = E[w sum_i mean_j |tau_i - [u_ij < 0]| huber(u_ij)]    u_ij = T_j - theta_i(s, a)    tau_i = (i + 1/2) / Q

Dims: N minibatch rows, A actions, Q quantiles (i of the network, j of the target). n-step windows end with their
episode; a time limit bootstraps, a death does not. Double, dueling and prioritised replay are the parts of DQN.
"""

from __future__ import annotations

from functools import partial

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from rlstudio.agents.q_value import QValueAgent
from rlstudio.algos.parts.q_learning import CHOOSE, Choose, QLearningConfig, check_fit, replay_source
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, Runtime, Stateful
from rlstudio.core.rng import Rng
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.q_values import QuantileValue
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.quantiles import quantile_huber
from rlstudio.ops.target import Target


class QRDQNConfig(QLearningConfig):
    quantiles: PositiveInt = Field(50, le=1000)
    """Quantiles that describe the return distribution of one action."""

    kappa: PositiveFloat = Field(1.0, le=1e6)
    """Errors above this count linearly, smaller ones quadratically (Huber loss)."""

    double: bool = False
    """Choose the next action with the network and value it with the target (van Hasselt et al. 2016)."""


class QRDQN(Trainer):
    Config = QRDQNConfig
    off_policy = True
    discrete = True
    action_kinds = ("Discrete",)

    def __init__(self, cfg: QRDQNConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        check_fit("qrdqn", runtime, network)
        self.cfg = cfg
        variant = partial(QuantileValue, quantiles=cfg.quantiles, dueling=cfg.dueling)
        self.model = build_model(variant, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.target = Target(self.model)
        self.agent = QValueAgent(self.model, runtime.spaces)
        self.source = replay_source(cfg, runtime, self.agent, rng)
        self.choose = CHOOSE[cfg.double]
        self.optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, runtime.group)

    def update(self, batch: Batch) -> Metrics:
        loss, errors_N, metrics = qrdqn_loss(self.model, self.target.model, batch, self.choose, self.cfg.kappa)
        metrics["grad_norm"] = self.optimizer.step(loss, weights=batch.weights)
        self.target.refresh(every=self.cfg.target_every, tau=self.cfg.tau)
        self.source.feedback(batch.rows, errors_N)
        return metrics

    def losses(self, batch: Batch) -> Metrics:
        return qrdqn_loss(self.model, self.target.model, batch, self.choose, self.cfg.kappa)[2]

    def stateful(self) -> dict[str, Stateful]:
        return {"model": self.model, "target": self.target, "optimizer": self.optimizer, "source": self.source}


def qrdqn_loss(
    model: QuantileValue, target: QuantileValue, batch: Batch, choose: Choose, kappa: float
) -> tuple[Tensor, Tensor, Metrics]:
    """The loss, each row's share of it [N] (what priorities go by, as in Rainbow), and what to report."""
    rows_N = torch.arange(len(batch), device=batch.device)
    quantiles_NQ = model(**batch.only(model.reads))[rows_N, batch.actions]
    with torch.no_grad():
        next_NAQ = target(batch.next_observations)
        next_NQ = next_NAQ[rows_N, choose(next_NAQ.mean(2), model, batch)]
        discounts_N = batch.discounts * (~batch.terminated).float()
        targets_NQ = batch.rewards.unsqueeze(1) + discounts_N.unsqueeze(1) * next_NQ
    losses_N = quantile_huber(quantiles_NQ, targets_NQ, kappa)
    loss = weighted_mean(losses_N, batch.weights)
    metrics = {"loss": loss.detach(), "q": quantiles_NQ.detach().mean(), "target": targets_NQ.mean()}
    return loss, losses_N.detach(), metrics


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("qrdqn")
