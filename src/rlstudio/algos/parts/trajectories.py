"""Experience for learning what trajectories are like (windows of replay that a behaviour fills, or of a dataset), and
the agent that plans with what was learned."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import Field, PositiveInt, model_validator

from rlstudio.agents.planning import PlanningAgent
from rlstudio.algos.parts.config import TrainConfig
from rlstudio.algos.parts.discounts import one_discount
from rlstudio.algos.parts.dynamics import DynamicsConfig, build_dynamics, learned_part
from rlstudio.core.config import refuse
from rlstudio.core.contracts import DataSource, EnvFacts, Explore, ReplayPlan, Runtime
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, describe
from rlstudio.data.collect.action_noise import RandomStart
from rlstudio.data.collect.explore import RandomShare
from rlstudio.data.datasets.minari_source import DatasetSource
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.planning.denoiser import DiffusionModel, TrajectoryModel
from rlstudio.models.planning.value import LearnedValue
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.diffusion import DiffusionPlanner, DiffusionPlannerConfig


class TrajectoryConfig(TrainConfig):
    behaviour: PlannerConfig | Literal["random", "own"] = "random"
    """What fills the replay: a planner, random actions (`random`), or after a random start the agent itself (`own`)."""

    random_share: float = Field(0.5, ge=0, le=1)
    """Share of random actions added to a behaviour: from none in the first environment up to this in the last."""

    dataset: str | None = Field(None, min_length=1)
    """A Minari dataset, by its id or its folder, to learn from instead; no environment steps are taken then."""

    learning_starts: PositiveInt = 1000
    """Environment steps before the first update."""

    train_every: PositiveInt = 100
    """Environment steps between two rounds of updates."""

    gradient_steps: PositiveInt = 50
    """Updates per round; each round reports once."""

    @model_validator(mode="after")
    def _fits_together(self) -> TrajectoryConfig:
        if isinstance(self.behaviour, PlannerConfig):
            one_discount(self.behaviour)
        if self.dataset is None and self.learning_starts >= self.planned_steps:
            refuse(("learning_starts",), f"{self.learning_starts} is not before the end, step {self.planned_steps}")
        return self


def trajectory_source(
    cfg: TrajectoryConfig, horizon: int, runtime: Runtime, own: PlanningAgent, rng: Rng
) -> DataSource:
    """Windows of `horizon` steps; `own` is the agent that learns from them."""
    if cfg.dataset is not None:
        return DatasetSource(
            cfg.dataset,
            runtime.spaces,
            runtime.group.own(rng.fork("sample")),
            batch_size=cfg.batch_size,
            horizon=horizon,
            device=runtime.device,
            ranks=runtime.group.size,
        )
    agent, explore = _behaviour(cfg, runtime, own)
    plan = ReplayPlan(
        batch_size=cfg.batch_size,
        warmup=cfg.learning_starts,
        every=cfg.train_every,
        updates=cfg.gradient_steps,
        horizon=horizon,
        gamma=cfg.gamma,
        windows=True,
    )
    return runtime.replay(agent, rng, plan, explore)


def _behaviour(cfg: TrajectoryConfig, runtime: Runtime, own: PlanningAgent) -> tuple[PlanningAgent, Explore]:
    """Who fills replay, and what chance does to it."""
    actions: Any = runtime.spaces.action
    if not isinstance(actions, Box | Discrete):
        raise Incompatible(f"diffusion plans numbers or one choice at a time; the env takes {describe(actions)}")
    mixed = RandomShare(actions, cfg.random_share)
    if cfg.behaviour == "own":
        return own, RandomStart(actions, cfg.learning_starts, mixed)
    if isinstance(cfg.behaviour, PlannerConfig):
        if cfg.behaviour.kind == "diffusion":
            raise Incompatible("train.behaviour: diffusion is what is learned here; to act by it, set behaviour to own")
        score = build_score(cfg.behaviour, own.score.dynamics, runtime.env_id, gamma=cfg.gamma)
        planner = build_planner(cfg.behaviour, actions)
        return PlanningAgent(planner, score, runtime.spaces, device=runtime.device), mixed
    nothing = build_planner(PlannerConfig(kind="random_shooting", horizon=1, candidates=1), actions)
    idle = PlanningAgent(nothing, own.score, runtime.spaces, device=runtime.device)
    return idle, RandomStart(actions, cfg.planned_steps)


# -- the agent ---------------------------------------------------------------------------------------------------------


def build_prior(horizon: int, env: EnvFacts, network: NetworkConfig, rng: Rng) -> TrajectoryModel:
    """The model of sequences, as it is before anything is learned."""
    variant = partial(TrajectoryModel, horizon=horizon)
    return build_model(variant, env.spaces, network, rng.fork("init"), env.device)


def diffusion_agent(
    planner: DiffusionPlannerConfig,
    modelled: DynamicsConfig,
    gamma: float,
    env: EnvFacts,
    network: NetworkConfig,
    rng: Rng,
    prior: TrajectoryModel,
) -> PlanningAgent:
    """Plans with the prior, and with dynamics and a value of its own where the settings say so."""
    dynamics = build_dynamics(modelled, env, rng.fork("dynamics"))
    value = None
    if planner.value == "own":
        value = LearnedValue(prior.observation_size, network, rng.fork("value"), gamma).to(env.device)
    model = DiffusionModel(prior, learned_part(dynamics), value)
    score = build_score(planner, dynamics, env.env_id, gamma=gamma, own=value)
    return PlanningAgent(DiffusionPlanner(planner, prior), score, env.spaces, model, env.device)
