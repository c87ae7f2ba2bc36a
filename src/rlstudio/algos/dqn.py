"""DQN: Q-learning with a target network and replay.  Mnih et al. 2015; double: van Hasselt et al. 2016 (1509.06461).

    y = sum_k gamma^k r_k + gamma^n Q_target(s', a')    a' = argmax Q(s', .) (double)  or  argmax Q_target(s', .)
    loss = E[huber(Q(s, a) - y)]

Dims: N minibatch rows, A actions. n-step windows end with their episode; a time limit bootstraps, a death does not.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, PositiveInt

from rlstudio.agents.q_value import QValueAgent
from rlstudio.algos.config import OffPolicyConfig
from rlstudio.algos.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, Stateful
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete, describe
from rlstudio.data.explore import EpsilonGreedy
from rlstudio.data.runtime import LocalRuntime
from rlstudio.data.sources import ReplaySource
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.q_values import QValue
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.schedules import linear
from rlstudio.ops.target import Target


class DQNConfig(OffPolicyConfig):
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
    """Choose the next action with the network and value it with the target (double DQN)."""

    epsilon_start: float = Field(1.0, ge=0, le=1)
    """Share of random actions at the start."""

    epsilon_end: float = Field(0.05, ge=0, le=1)
    """Share of random actions once `epsilon_fraction` of the run is over."""

    epsilon_fraction: float = Field(0.1, gt=0, le=1)
    """Part of the run over which epsilon falls."""


class DQN(Trainer):
    Config = DQNConfig
    off_policy = True
    discrete = True

    def __init__(self, cfg: DQNConfig, runtime: LocalRuntime, network: NetworkConfig, rng: Rng) -> None:
        actions = runtime.spaces.action
        if not isinstance(actions, Discrete):
            raise Incompatible(f"dqn needs Discrete actions; the env takes {describe(actions)}: try ppo")
        if network.normalize_observations:
            raise Incompatible(
                "policy.network.normalize_observations: dqn keeps no running statistics; set it to false"
            )
        self.cfg = cfg
        self.model = build_model(QValue, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.target = Target(self.model)
        self.agent = QValueAgent(self.model, runtime.spaces)
        self.explore = EpsilonGreedy(actions, cfg.epsilon_start)
        self.source = ReplaySource(
            runtime.collector(self.agent, rng.fork("collector"), self.explore),
            runtime.replay(),
            rng.fork("sample"),
            batch_size=cfg.batch_size,
            warmup=cfg.learning_starts,
            every=cfg.train_every,
            updates=cfg.gradient_steps,
            horizon=cfg.n_step,
            gamma=cfg.gamma,
            device=runtime.device,
        )
        self.optimizer = Optimizer(self.model, lr=cfg.lr, max_grad_norm=cfg.max_grad_norm, reduce=runtime.reduce)

    def update(self, batch: Batch) -> Metrics:
        loss, metrics = dqn_loss(self.model, self.target.model, batch, self.cfg)
        metrics["grad_norm"] = self.optimizer.step(loss)
        self.target.refresh(every=self.cfg.target_every, tau=self.cfg.tau)
        return metrics

    def progress(self, fraction: float) -> None:
        super().progress(fraction)
        cfg = self.cfg
        self.explore.epsilon = linear(cfg.epsilon_start, cfg.epsilon_end, fraction, until=cfg.epsilon_fraction)

    def losses(self, batch: Batch) -> Metrics:
        return dqn_loss(self.model, self.target.model, batch, self.cfg)[1]

    def stateful(self) -> dict[str, Stateful]:
        return {"model": self.model, "target": self.target, "optimizer": self.optimizer, "source": self.source}


def dqn_loss(model: QValue, target: QValue, batch: Batch, cfg: DQNConfig) -> tuple[torch.Tensor, Metrics]:
    q_N = model(**batch.only(model.reads)).gather(1, batch.actions.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        next_q_NA = target(batch.next_observations)
        chooser_NA = model(batch.next_observations) if cfg.double else next_q_NA
        next_q_N = next_q_NA.gather(1, chooser_NA.argmax(1, keepdim=True)).squeeze(1)
        targets_N = batch.rewards + batch.discounts * next_q_N * (~batch.terminated).float()
    loss = weighted_mean(F.smooth_l1_loss(q_N, targets_N, reduction="none"), batch.weights)
    return loss, {"loss": loss.detach(), "q": q_N.detach().mean(), "target": targets_N.mean()}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("dqn")
