"""Behavioural cloning: imitate the actions of a dataset.  Pomerleau 1989 (ALVINN); no environment is stepped.

    loss = E[ -log pi(a | s) ]        choices: cross-entropy; numbers: the density of a Gaussian
    loss = E[ |mu(s) - a|^2 ]         `mse`, numbers only

Dims: N minibatch rows. What comes out is a policy like any other: to evaluate, to export, or as a prior to plan with.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat
from torch import Tensor

from rlstudio.agents.policy import PolicyAgent
from rlstudio.algos.parts.config import TrainConfig
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, Runtime, Stateful
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, describe
from rlstudio.data.datasets.minari_source import DatasetSource
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.distributions import Gaussian, entropy, log_prob, mode
from rlstudio.models.policies.policy_value import PolicyOnly
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer


class CloningConfig(TrainConfig):
    lr: PositiveFloat = Field(1e-3, le=10.0)
    """Learning rate at the start."""

    dataset: str = Field(min_length=1)
    """A Minari dataset, by its id or its folder. A row that is learned from counts as an environment step."""

    best_share: float = Field(1.0, gt=0, le=1)
    """Share of the episodes to learn from: those with the highest returns."""

    loss: Literal["likelihood", "mse"] = "likelihood"
    """`likelihood`: maximise the probability of the recorded actions; `mse`: minimise the squared distance to them
    (continuous actions only)."""


class Cloning(Trainer):
    Config = CloningConfig
    off_policy = True
    needs = "a dataset (train.dataset)"

    def __init__(self, cfg: CloningConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        if cfg.loss == "mse" and not isinstance(runtime.spaces.action, Box):
            raise Incompatible(
                f"train.loss mse: needs numbers as actions; the env takes {describe(runtime.spaces.action)}"
            )
        self.cfg = cfg
        self.model = build_model(PolicyOnly, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.agent = PolicyAgent(self.model, runtime.spaces)
        self.source = DatasetSource(
            cfg.dataset,
            runtime.spaces,
            runtime.group.own(rng.fork("sample")),
            batch_size=cfg.batch_size,
            best_share=cfg.best_share,
            device=runtime.device,
            ranks=runtime.group.size,
        )
        self.optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, runtime.group)

    def train_step(self) -> Metrics:
        batch = self.source.next()
        encoder = self.model.encoder
        if encoder.normalizer is not None:  # every rank has the whole dataset: there is nothing to agree on
            rows = self.source.fresh()
            encoder.normalizer.update(encoder.raw(rows.observations), rows.weights)
        return self.update(batch)

    def update(self, batch: Batch) -> Metrics:
        loss, metrics = cloning_loss(self.model, batch, self.cfg)
        metrics["grad_norm"] = self.optimizer.step(loss, weights=batch.weights)
        return metrics

    def losses(self, batch: Batch) -> Metrics:
        return cloning_loss(self.model, batch, self.cfg)[1]

    def stateful(self) -> dict[str, Stateful]:
        return {"model": self.model, "optimizer": self.optimizer, "source": self.source}


def cloning_loss(model: PolicyOnly, batch: Batch, cfg: CloningConfig) -> tuple[Tensor, Metrics]:
    policy = model(**batch.only(model.reads))
    if cfg.loss == "mse":
        loss = weighted_mean((mode(policy) - batch.actions).square().sum(-1), batch.weights)
    else:
        loss = -weighted_mean(log_prob(policy, batch.actions), batch.weights)
    metrics = {"loss": loss.detach(), "entropy": weighted_mean(entropy(policy), batch.weights).detach()}
    if not isinstance(policy, Gaussian):
        agrees = (mode(policy) == batch.actions).float()
        metrics["accuracy"] = weighted_mean(agrees if agrees.dim() == 1 else agrees.mean(-1), batch.weights)
    return loss, metrics


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("bc")
