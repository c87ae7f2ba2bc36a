"""Diffusion: learn what action sequences occur, sample some, do the best.  Janner et al. 2022, arXiv:2205.09991.

    x_t = cos(pi t / 2) x_0 + sin(pi t / 2) eps       t ~ U(0, 1)       eps ~ N(0, I)      x_0: H actions from s_0 on
    loss = E[ w ( x_0 - model(x_t, t, s_0) )^2 ]      w = 0 after the end of an episode

What is learned is the prior p0(tau | s_0) of planning as inference, p*(tau | s_0) ~ p0(tau | s_0) exp(beta R(tau)); a
running mean of its weights acts, through `planners/diffusion.py`, and R comes from rolling out the dynamics. Experience
is what a planner, chance or the agent itself does, or a dataset. Dims: H steps of horizon, N windows, D action numbers.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from pydantic import Field, PositiveFloat, model_validator
from torch import Tensor, nn

from rlstudio.agents.planning import PlanningAgent
from rlstudio.algos.parts.continuous import not_finite
from rlstudio.algos.parts.discounts import discounted_value
from rlstudio.algos.parts.dynamics import DynamicsConfig, own_resamples
from rlstudio.algos.parts.planning_losses import judge_loss
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.algos.parts.trajectories import TrajectoryConfig, build_prior, diffusion_agent, trajectory_source
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import EnvFacts, Metrics, Runtime, Stateful
from rlstudio.core.rng import Rng
from rlstudio.data.replay.windows import transitions
from rlstudio.models.config import NetworkConfig
from rlstudio.models.planning.denoiser import DiffusionModel, TrajectoryModel, drawn, noised
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.target import Target
from rlstudio.planners.diffusion import DiffusionPlannerConfig

PLANNED_STARTS = 8
"""Starts of a batch from which a plan is made to report how it goes."""


class DiffusionConfig(TrajectoryConfig):
    acting_fields: ClassVar[tuple[str, ...]] = ("gamma", "planner", "dynamics")

    lr: PositiveFloat = Field(1e-3, le=10.0)
    """Learning rate at the start."""

    gamma: float = Field(1.0, gt=0.0, le=1.0)
    """Discount within a plan."""

    planner: DiffusionPlannerConfig = DiffusionPlannerConfig()
    """How sequences are drawn from the prior and what is done with them."""

    dynamics: DynamicsConfig = DynamicsConfig(kind="analytic")
    """The model that sequences are rolled out in."""

    ema: float = Field(0.995, ge=0, lt=1)
    """Share of the acting weights that stays in each update; the rest comes from the learned ones."""

    @model_validator(mode="after")
    def _looks_ahead(self) -> DiffusionConfig:
        discounted_value(self.planner, self.gamma)
        return self


class Diffusion(Trainer):
    Config = DiffusionConfig
    off_policy = True
    action_kinds = ("Discrete", "Box")
    observation_kinds = ("Box",)
    agent: PlanningAgent

    def __init__(self, cfg: DiffusionConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        self.cfg = cfg
        self.prior = build_prior(cfg.planner.horizon, runtime, network, rng)
        self.average = Target(self.prior)
        self.average.model.normalizer = self.prior.normalizer  # of the data, the same for both
        self.agent = diffusion_agent(cfg.planner, cfg.dynamics, cfg.gamma, runtime, network, rng, self.average.model)
        self.model: DiffusionModel = self.agent.model
        learned, value = self.model.dynamics, self.model.value
        self.source = trajectory_source(cfg, cfg.planner.horizon, runtime, self.agent, rng)
        self.group = runtime.group
        step = partial(Optimizer, lr=cfg.lr, max_grad_norm=cfg.max_grad_norm, group=self.group)
        judges = nn.ModuleList(part for part in (learned, value) if part is not None)
        self.optimizer, self.judge_optimizer = step(self.prior), step(judges) if len(judges) else None
        self.counts = own_resamples(learned, runtime, rng)
        self.rng = self.group.own(rng.fork("update"))

    @classmethod
    def build_agent(cls, cfg: DiffusionConfig, env: EnvFacts, network: NetworkConfig, rng: Rng) -> PlanningAgent:
        prior = build_prior(cfg.planner.horizon, env, network, rng).requires_grad_(False)
        return diffusion_agent(cfg.planner, cfg.dynamics, cfg.gamma, env, network, rng, prior)

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        return (self.optimizer,) if self.judge_optimizer is None else (self.optimizer, self.judge_optimizer)

    def train_step(self) -> Metrics:
        """One round of updates, and what planning with the result is like."""
        rows = []
        for _ in range(self.cfg.gradient_steps):
            batch = self.source.next()
            self.model.learn_statistics(self.source.fresh(), self.group)
            self.judge_value(batch)
            rows.append(self.update(batch))
        means = {name: torch.stack([row[name] for row in rows]).mean() for name in rows[0]}
        starts = batch.observations[0][:PLANNED_STARTS].float()
        return means | self.agent.plan_metrics(starts, self.rng.fork("judged").generator(self.optimizer.calls))

    def judge_value(self, batch: Batch) -> None:
        """By windows that are new to it; of a dataset none are, so by those that it learns from next."""
        if self.model.value is None:
            return
        if self.cfg.dataset is None:
            windows = self.source.fresh(self.cfg.planner.horizon)
        else:
            windows = transitions(batch, self.cfg.gamma)
        self.model.value.judge(windows, self.group)

    def update(self, batch: Batch) -> Metrics:
        loss, metrics = self.loss(batch)
        metrics["grad_norm"] = self.optimizer.step(loss, weights=batch.weights)
        early = 9.0 / (10.0 + self.optimizer.calls)  # a mean of few weights follows them quickly
        self.average.refresh(tau=max(1.0 - self.cfg.ema, early), skip=not_finite(metrics["grad_norm"]))
        if self.judge_optimizer is not None:
            loss, row = judge_loss(self.model, batch, self.counts, self.cfg.gamma)
            self.judge_optimizer.step(loss, weights=batch.weights)
            metrics |= row
        return metrics

    def losses(self, batch: Batch) -> Metrics:
        return self.loss(batch)[1]

    def loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """With noise that is a function of the update's number."""
        steps, rows = batch.shape
        generator = self.rng.generator(self.optimizer.calls)
        times_N, noise = drawn(generator, (rows, steps, self.prior.size), batch.device)
        return diffusion_loss(self.prior, batch, times_N, noise)

    def stateful(self) -> dict[str, Stateful]:
        judges = {} if self.judge_optimizer is None else {"judge_optimizer": self.judge_optimizer}
        return {"model": self.model, "prior": self.prior, "optimizer": self.optimizer, **judges, "source": self.source}


def diffusion_loss(model: TrajectoryModel, batch: Batch, times_N: Tensor, noise: Tensor) -> tuple[Tensor, Metrics]:
    """`batch` are windows [H, N]; `noise` [N, H, D]."""
    assert batch.weights is not None
    live = batch.weights.T.unsqueeze(-1)  # [N, H, 1]
    data = model.encode(batch.actions).transpose(0, 1) * (live > 0)
    guessed = model(noised(data, times_N, noise), times_N, batch.observations[0])
    loss = weighted_mean((guessed - data).square().mean(-1), live.squeeze(-1))
    return loss, {"loss": loss.detach()}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("diffusion")
