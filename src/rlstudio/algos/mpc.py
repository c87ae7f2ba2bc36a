"""MPC: plan ahead in the equations of the world, do the first action, plan anew. Nothing is learned.

    a_t = first action of  argmax_A  sum_{k<H} gamma^k r(s_k, a_k)        s_0 = s_t,  s_{k+1} = f(s_k, a_k)

Model-predictive control; the search over action sequences A is the planner's (`planners/search.py`), f and r are the
world's own. Dims: T rollout steps, B envs.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, PositiveInt, model_validator
from torch import nn

from rlstudio.agents.planning import PlanningAgent
from rlstudio.algos.parts.config import RunLength
from rlstudio.algos.parts.discounts import one_discount
from rlstudio.algos.parts.dynamics import DynamicsConfig, build_dynamics
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.config import Retired, refuse
from rlstudio.core.contracts import EnvFacts, Metrics, Runtime, Stateful
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig


class MPCConfig(RunLength):
    acting_fields: ClassVar[tuple[str, ...]] = ("gamma", "planner", "dynamics")

    retired: ClassVar[dict[str, Retired]] = {
        "batch_size": Retired(1, "mpc learns nothing"),
        "lr": Retired(3e-4, "mpc learns nothing"),
        "lr_schedule": Retired("constant", "mpc learns nothing"),
        "max_grad_norm": Retired(0.5, "mpc learns nothing"),
    }

    gamma: float = Field(1.0, gt=0.0, le=1.0)
    """Discount within a plan."""

    rollout_steps: PositiveInt | None = None
    """Steps of each environment between two reports; null takes a whole epoch."""

    planner: PlannerConfig = Field(default_factory=PlannerConfig)
    """The planner."""

    dynamics: DynamicsConfig = Field(default_factory=lambda: DynamicsConfig(kind="analytic"))
    """The model that the planner searches in."""

    @model_validator(mode="after")
    def _plans_by_equations(self) -> MPCConfig:
        if self.dynamics.kind in ("mlp", "ensemble"):
            refuse(("dynamics", "kind"), f"mpc learns nothing, and {self.dynamics.kind} must be learned; use mbmpc")
        one_discount(self.planner)
        return self


class MPC(Trainer):
    Config = MPCConfig
    off_policy = False
    action_kinds = ("Discrete", "Box")
    observation_kinds = ("Box",)
    needs = "a world whose equations are known"
    needs_equations = True

    def __init__(self, cfg: MPCConfig, runtime: Runtime, network: NetworkConfig, rng: Rng) -> None:
        self.cfg = cfg
        self.agent = self.build_agent(cfg, runtime, network, rng)
        self.model = self.agent.model
        steps = cfg.rollout_steps or cfg.steps_per_epoch // runtime.run_envs
        self.source = runtime.stream(self.agent, rng, steps)

    @classmethod
    def build_agent(cls, cfg: MPCConfig, env: EnvFacts, network: NetworkConfig, rng: Rng) -> PlanningAgent:
        if cfg.planner.kind in ("guided", "diffusion"):
            raise Incompatible(f"planner {cfg.planner.kind}: follows what was learned, and mpc learns nothing; use cem")
        dynamics = build_dynamics(cfg.dynamics, env, rng.fork("dynamics"))
        if isinstance(dynamics, nn.Module):
            raise Incompatible(f"dynamics {cfg.dynamics.kind}: must be learned, and mpc learns nothing; use mbmpc")
        score = build_score(cfg.planner, dynamics, env.env_id, gamma=cfg.gamma)
        planner = build_planner(cfg.planner, env.spaces.action)
        nothing = nn.Module()  # to keep, and a checkpoint says so
        return PlanningAgent(planner, score, env.spaces, nothing, env.device)

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        return ()

    def update(self, batch: Batch) -> Metrics:
        return self.losses(batch)

    def losses(self, batch: Batch) -> Metrics:
        """What the rollout earned on average: there is no loss to tell of."""
        return {"reward": weighted_mean(batch.rewards, batch.weights)}

    def stateful(self) -> dict[str, Stateful]:
        return {"model": self.model, "source": self.source}


if __name__ == "__main__":
    from rlstudio.cli.algorithm import main

    main("mpc")
