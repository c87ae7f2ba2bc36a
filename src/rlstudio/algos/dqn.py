"""DQN: Q-learning with a target network and replay.  Mnih et al. 2015; double: van Hasselt et al. 2016 (1509.06461).

    y = sum_k gamma^k r_k + gamma^n Q_target(s', a')    a' = argmax Q(s', .) (double)  or  argmax Q_target(s', .)
    loss = E[w huber(Q(s, a) - y)]

Dims: N minibatch rows, A actions. n-step windows end with their episode; a time limit bootstraps, a death does not.
Double, dueling and prioritised replay are parts: how a' is chosen, which Model, where w and the rows come from.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from rlstudio.agents.q_value import QValueAgent
from rlstudio.algos.parts.q_learning import CHOOSE, Choose, QLearningConfig, check_fit, replay_source
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, Runtime, Stateful
from rlstudio.core.rng import Rng
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.q_values import QValue
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.target import Target


class DQNConfig(QLearningConfig):
    """Everything of Q-learning, and nothing else."""


class DQN(Trainer):
    Config = DQNConfig
    off_policy = True
    discrete = True
    action_kinds = ("Discrete",)

    def __init__(self, cfg: DQNConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        check_fit("dqn", runtime, network)
        self.cfg = cfg
        variant = partial(QValue, dueling=cfg.dueling)
        self.model = build_model(variant, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.target = Target(self.model)
        self.agent = QValueAgent(self.model, runtime.spaces)
        self.source = replay_source(cfg, runtime, self.agent, rng)
        self.choose = CHOOSE[cfg.double]
        self.optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, runtime.group)

    def update(self, batch: Batch) -> Metrics:
        loss, errors_N, metrics = dqn_loss(self.model, self.target.model, batch, self.choose)
        metrics["grad_norm"] = self.optimizer.step(loss, weights=batch.weights)
        self.target.refresh(every=self.cfg.target_every, tau=self.cfg.tau)
        self.source.feedback(batch.rows, errors_N)
        return metrics

    def losses(self, batch: Batch) -> Metrics:
        return dqn_loss(self.model, self.target.model, batch, self.choose)[2]

    def stateful(self) -> dict[str, Stateful]:
        return {"model": self.model, "target": self.target, "optimizer": self.optimizer, "source": self.source}


def dqn_loss(model: QValue, target: QValue, batch: Batch, choose: Choose) -> tuple[Tensor, Tensor, Metrics]:
    """The loss, each row's error [N], and what to report."""
    q_N = model(**batch.only(model.reads)).gather(1, batch.actions.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        next_q_NA = target(batch.next_observations)
        next_actions_N = choose(next_q_NA, model, batch)
        next_q_N = next_q_NA.gather(1, next_actions_N.unsqueeze(1)).squeeze(1)
        targets_N = batch.rewards + batch.discounts * next_q_N * (~batch.terminated).float()
    loss = weighted_mean(F.smooth_l1_loss(q_N, targets_N, reduction="none"), batch.weights)
    q_N = q_N.detach()
    return loss, q_N - targets_N, {"loss": loss.detach(), "q": q_N.mean(), "target": targets_N.mean()}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("dqn")
