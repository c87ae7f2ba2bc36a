"""MBMPC: learn a model of the world, plan in it, and learn a policy and a value from what the plans did.

    dynamics = E[ -log p(o' - o, r, goes on | o, a) ]                    (`algos/dynamics.py`)
    value    = E[ (V(o) - (sum_{k<n} gamma^k r_k + gamma^n V(o_n)))^2 ] / 2
    policy   = E[ -w log pi(a|o) ]      w = 1 where the planner chose a (cloning)  or  exp(A / tau) (advantage)
    loss     = c_d dynamics + c_v value + c_p policy

Nagabandi et al. 2018, arXiv:1708.02596; Chua et al. 2018 (PETS), 1805.12114; advantage weights: Peng et al. 2019,
1910.00177. What acts is the planner: the policy may propose sequences to it (planner guided), and the value says what
comes after its horizon, as far as it can be trusted (`models/planning.py`). Dims: N minibatch rows.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor

from rlstudio.agents.planning import PlanningAgent
from rlstudio.algos.config import OffPolicyConfig
from rlstudio.algos.dynamics import DynamicsConfig, build_dynamics, dynamics_loss, resamples
from rlstudio.algos.mpc import one_discount
from rlstudio.algos.row_weights import advantage_weights, planned
from rlstudio.algos.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, Stateful
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, describe
from rlstudio.data.action_noise import RandomStart
from rlstudio.data.runtime import LocalRuntime
from rlstudio.data.sources import ReplaySource
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.distributions import log_prob
from rlstudio.models.dynamics import LearnedDynamics
from rlstudio.models.planning import PlanningModel
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig


class MBMPCConfig(OffPolicyConfig):
    lr: PositiveFloat = Field(1e-3, le=10.0)
    """Learning rate at the start."""

    max_grad_norm: PositiveFloat | None = None
    """Gradients are scaled down to this norm; null switches it off."""

    learning_starts: PositiveInt = 200
    """Environment steps with random actions before the first update and the first plan that counts."""

    train_every: PositiveInt = 50
    """Environment steps between two rounds of updates."""

    gradient_steps: PositiveInt = 200
    """Updates per round."""

    n_step: PositiveInt = Field(10, le=100)
    """Rewards that the value's targets sum before they bootstrap."""

    planner: PlannerConfig = Field(default_factory=PlannerConfig)
    """The search for what to do, and whether it counts what comes after its horizon (`value`)."""

    dynamics: DynamicsConfig = Field(default_factory=DynamicsConfig)
    """The model to search in."""

    policy_loss: Literal["cloning", "advantage"] = "cloning"
    """Imitate what the planner did, or everything that was done, by how much better than expected it went."""

    advantage_tau: PositiveFloat = 1.0
    """Standard deviations of advantage that make an action e times as important (advantage)."""

    dynamics_coef: NonNegativeFloat = 1.0
    """Weight of the dynamics' loss."""

    value_coef: NonNegativeFloat = 1.0
    """Weight of the value's loss."""

    policy_coef: NonNegativeFloat = 1.0
    """Weight of the policy's loss."""

    @model_validator(mode="after")
    def _fits_together(self) -> MBMPCConfig:
        one_discount(self.planner)
        return self


class MBMPC(Trainer):
    Config = MBMPCConfig
    off_policy = True
    source: ReplaySource

    def __init__(self, cfg: MBMPCConfig, runtime: LocalRuntime, network: NetworkConfig, rng: Rng) -> None:
        actions = check_fit(cfg, runtime, network)
        self.cfg = cfg
        dynamics = build_dynamics(cfg.dynamics, runtime, rng.fork("dynamics"))
        learned = dynamics if isinstance(dynamics, LearnedDynamics) else None
        variant = partial(PlanningModel, dynamics=learned, gamma=cfg.gamma)
        self.model = build_model(variant, runtime.spaces, network, rng.fork("init"), runtime.device)
        planner = build_planner(cfg.planner, actions, self.model.policy)
        score = build_score(cfg.planner, dynamics, runtime.env_id, gamma=cfg.gamma, own=self.model.value)
        self.agent = PlanningAgent(planner, score, runtime.spaces, self.model, runtime.device)
        self.source = ReplaySource(
            runtime.collector(self.agent, rng.fork("collector"), RandomStart(actions, cfg.learning_starts)),
            runtime.replay(),
            rng.fork("sample"),
            batch_size=cfg.batch_size,
            warmup=max(cfg.learning_starts, cfg.n_step * runtime.num_envs),
            every=cfg.train_every,
            updates=cfg.gradient_steps,
            gamma=cfg.gamma,
            device=runtime.device,
        )
        self.counts = None if learned is None else resamples(learned.members, rng.fork("resamples")).to(runtime.device)
        self.optimizer = Optimizer(self.model, lr=cfg.lr, max_grad_norm=cfg.max_grad_norm, reduce=runtime.reduce)

    def train_step(self) -> Metrics:
        known = self.source.replay.added
        batch = self.source.next()
        if self.source.replay.added > known:
            self.learn_statistics(known)
        return self.update(batch)

    def learn_statistics(self, known: int) -> None:
        """Of the rows from number `known` on, and of the windows that they complete."""
        replay, device = self.source.replay, self.source.device
        self.model.learn_statistics(replay.at(np.arange(max(known, replay.oldest), replay.added)).to(device))
        span = (self.cfg.n_step - 1) * replay.num_envs
        first, last = max(known - span, replay.oldest, self.cfg.learning_starts), replay.added - span
        if first < last:
            self.model.judge_value(replay.at(np.arange(first, last), self.cfg.n_step, self.cfg.gamma).to(device))

    def update(self, batch: Batch) -> Metrics:
        loss, metrics = mbmpc_loss(self.model, batch, self.windows(batch), self.counts, self.cfg)
        metrics["grad_norm"] = self.optimizer.step(loss)
        return metrics

    def losses(self, batch: Batch) -> Metrics:
        return mbmpc_loss(self.model, batch, self.windows(batch), self.counts, self.cfg)[1]

    def windows(self, batch: Batch) -> Batch:
        """The same rows as n-step transitions; of rows so new that their window is not over, the last whole one."""
        replay, steps = self.source.replay, self.cfg.n_step
        whole = replay.added - (steps - 1) * replay.num_envs - 1
        numbers = np.minimum(batch.rows.numpy(force=True), whole)
        return replay.at(numbers, steps, self.cfg.gamma).to(self.source.device)

    def stateful(self) -> dict[str, Stateful]:
        return {"model": self.model, "optimizer": self.optimizer, "source": self.source}


def check_fit(cfg: MBMPCConfig, runtime: LocalRuntime, network: NetworkConfig) -> Box | Discrete:
    """The action space, if it can be planned and learned."""
    actions = runtime.spaces.action
    if not isinstance(actions, Box | Discrete):
        raise Incompatible(f"mbmpc plans numbers or one choice at a time; the env takes {describe(actions)}: try ppo")
    if network.normalize_observations:
        raise Incompatible(
            "policy.network.normalize_observations: mbmpc's dynamics keep statistics of their own; set it to false"
        )
    if cfg.n_step * runtime.num_envs > runtime.replay_capacity:
        raise ConfigError(
            f"buffer.capacity: {runtime.replay_capacity} rows of {runtime.num_envs} environments hold no window of"
            f" {cfg.n_step} steps; raise it to {cfg.n_step * runtime.num_envs} or more"
        )
    return actions


def mbmpc_loss(
    model: PlanningModel, batch: Batch, windows: Batch, counts: Tensor | None, cfg: MBMPCConfig
) -> tuple[Tensor, Metrics]:
    """`batch` are transitions, `windows` n-step ones; `counts` the resamples of the dynamics, None of known ones."""
    unit_values_N = model.behaviour.value(windows.observations)
    with torch.no_grad():
        targets_N = model.targets(windows)
        advantages_N = targets_N - model.own_value(windows.observations)
    planned_N = planned(windows, cfg.learning_starts)
    clones = cfg.policy_loss == "cloning"
    weights_N = planned_N if clones else advantage_weights(advantages_N, windows.weights, cfg.advantage_tau)
    value_loss = 0.5 * weighted_mean((unit_values_N - targets_N / model.value_scale).square(), planned_N)
    log_probs_N = log_prob(model.policy(windows.observations), model.unit(windows.actions))
    policy_loss = -weighted_mean(log_probs_N, weights_N)
    loss = cfg.value_coef * value_loss + cfg.policy_coef * policy_loss
    metrics = {
        "value_loss": value_loss.detach(),
        "policy_loss": policy_loss.detach(),
        "target": targets_N.mean(),
        "value_trust": model.trust,
    }
    if counts is not None and model.dynamics is not None:
        part, row = dynamics_loss(model.dynamics, batch, counts)
        loss, metrics = loss + cfg.dynamics_coef * part, metrics | row
    return loss, metrics | {"loss": loss.detach()}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("mbmpc")
