"""MBMPC: learn a model of the world, plan in it, and learn a policy and a value from what the plans did.

    dynamics = E[ -log p(o' - o, r, goes on | o, a) ]                    (`algos/parts/dynamics.py`)
    value    = E[ (V(o) - (sum_{k<n} gamma^k r_k + gamma^n V(o_n)))^2 ] / (2 scale^2)
    policy   = E[ -w log pi(a|o) ]      w = 1 where the planner chose a (cloning)  or  exp(A / tau) (advantage)
    loss     = c_d dynamics + c_v value + c_p policy

Nagabandi et al. 2018, arXiv:1708.02596; Chua et al. 2018 (PETS), 1805.12114; advantage weights: Peng et al. 2019,
1910.00177. What acts is the planner: the policy may propose sequences to it (planner guided), and the value says what
comes after its horizon, as far as it can be trusted (`models/planning/value.py`). Dims: N minibatch rows.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import Tensor

from rlstudio.agents.planning import PlanningAgent
from rlstudio.algos.parts.config import OffPolicyConfig, refuse_early_start
from rlstudio.algos.parts.discounts import discounted_value, one_discount
from rlstudio.algos.parts.dynamics import DynamicsConfig, build_dynamics, dynamics_loss, learned_part, own_resamples
from rlstudio.algos.parts.planning_losses import JointLossConfig, imitation_loss, td_loss
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import EnvFacts, Group, Metrics, Runtime, Stateful
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete
from rlstudio.data.collect.action_noise import RandomStart
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig, PartNetworkConfig, ValueConfig
from rlstudio.models.planning.experience import PlanningModel
from rlstudio.ops.group import ALONE
from rlstudio.ops.optimizer import Optimizer
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig


class MBMPCConfig(JointLossConfig, OffPolicyConfig):
    hashed_if_set: ClassVar[tuple[str, ...]] = (*OffPolicyConfig.hashed_if_set, "policy", "value")
    acting_fields: ClassVar[tuple[str, ...]] = ("gamma", "planner", "dynamics", "policy", "value")

    lr: PositiveFloat = Field(1e-3, le=10.0)
    """Learning rate at the start."""

    max_grad_norm: PositiveFloat | None = None
    """Gradients are scaled down to this norm; null switches it off."""

    learning_starts: PositiveInt = 200
    """Environment steps with random actions before the first update and the first planned action."""

    train_every: PositiveInt = 50
    """Environment steps between two rounds of updates."""

    gradient_steps: PositiveInt = 200
    """Updates per round."""

    n_step: PositiveInt = Field(10, le=100)
    """Rewards that the value's targets sum before they bootstrap."""

    planner: PlannerConfig = Field(default_factory=PlannerConfig)
    """The planner, and what it assumes to come after its horizon (`value`)."""

    dynamics: DynamicsConfig = Field(default_factory=DynamicsConfig)
    """The model that the planner searches in."""

    policy: PartNetworkConfig = Field(default_factory=PartNetworkConfig)
    """The policy that proposes sequences (planner guided)."""

    value: ValueConfig = Field(default_factory=ValueConfig)
    """The value of what comes after the horizon (planner.value own)."""

    @model_validator(mode="after")
    def _fits_together(self) -> MBMPCConfig:
        one_discount(self.planner)
        discounted_value(self.planner, self.gamma)
        return self


class MBMPC(Trainer):
    Config = MBMPCConfig
    off_policy = True
    action_kinds = ("Discrete", "Box")
    observation_kinds = ("Box",)

    def __init__(self, cfg: MBMPCConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        self.cfg = cfg
        self.agent = self.build_agent(cfg, runtime, network, rng)
        self.model: PlanningModel = self.agent.model
        actions = runtime.spaces.action
        assert isinstance(actions, Box | Discrete)  # or there were no planner
        self.source = runtime.replay(self.agent, rng, cfg.replay_plan, RandomStart(actions, cfg.learning_starts))
        refuse_early_start(cfg, runtime.run_envs)
        self.group = runtime.group
        self.counts = own_resamples(self.model.dynamics, runtime, rng)
        self.optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, self.group)

    @classmethod
    def build_agent(cls, cfg: MBMPCConfig, env: EnvFacts, network: NetworkConfig, rng: Rng) -> PlanningAgent:
        dynamics = build_dynamics(cfg.dynamics, env, rng.fork("dynamics"))
        learned = learned_part(dynamics)
        variant = partial(PlanningModel, dynamics=learned, gamma=cfg.gamma, policy=cfg.policy, value=cfg.value)
        model = build_model(variant, env.spaces, network, rng.fork("init"), env.device)
        planner = build_planner(cfg.planner, env.spaces.action, model.policy)
        score = build_score(cfg.planner, dynamics, env.env_id, gamma=cfg.gamma, own=model.value)
        return PlanningAgent(planner, score, env.spaces, model, env.device)

    def train_step(self) -> Metrics:
        windows = self.source.next()
        self.model.learn_statistics(self.source.fresh(), self.group)
        whole = self.source.fresh(self.cfg.n_step)
        self.model.value.judge(whole.with_(weights=self.planned(whole)), self.group)
        return self.update(windows)

    def update(self, batch: Batch) -> Metrics:
        loss, metrics = self.loss(batch)
        metrics["grad_norm"] = self.optimizer.step(loss, weights=batch.weights)
        return metrics

    def losses(self, batch: Batch) -> Metrics:
        return self.loss(batch)[1]

    def loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        rows = self.newest(batch)
        return mbmpc_loss(self.model, batch, self.planned(batch), rows, self.counts, self.cfg, self.group)

    def planned(self, windows: Batch) -> Tensor:
        """Weights of the windows in which a planner acted; those of the random start do not count."""
        weights_N = self.source.after_warmup(windows.rows).float()
        return weights_N if windows.weights is None else weights_N * windows.weights

    def newest(self, windows: Batch) -> Batch:
        """The last row of each window, so that the dynamics miss nothing of what has just been seen."""
        return self.source.following(windows.rows, self.cfg.n_step - 1)

    def stateful(self) -> dict[str, Stateful]:
        return {"model": self.model, "optimizer": self.optimizer, "source": self.source}


def mbmpc_loss(
    model: PlanningModel,
    windows: Batch,
    planned_N: Tensor,
    rows: Batch,
    counts: Tensor | None,
    cfg: MBMPCConfig,
    group: Group = ALONE,
) -> tuple[Tensor, Metrics]:
    """`windows` are n-step transitions with the weights `planned_N` where a planner acted, `rows` single ones; `counts`
    the resamples of learned dynamics."""
    value_loss, targets_N = td_loss(model.value, windows, planned_N)
    policy_loss = imitation_loss(model, windows, planned_N, targets_N, cfg, group)
    loss = cfg.value_coef * value_loss + cfg.policy_coef * policy_loss
    metrics = {"value_loss": value_loss.detach(), "policy_loss": policy_loss.detach(), "target": targets_N.mean()}
    if counts is not None and model.dynamics is not None:
        part, row = dynamics_loss(model.dynamics, rows, counts)
        loss, metrics = loss + cfg.dynamics_coef * part, metrics | row
    return loss, metrics | {"value_trust": model.value.trust, "loss": loss.detach()}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("mbmpc")
