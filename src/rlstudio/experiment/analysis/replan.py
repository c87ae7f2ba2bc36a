"""Another planner for a trained agent, with its own policy and value as a help: in the model it learned itself or that
another agent learned, otherwise in the equations of its world.

planner = planning_agent(
    loaded.agent, loaded.cfg, ["kind=mppi", "horizon=20"], learned=loaded.learned, reward_scale=loaded.reward_scale
)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlstudio.agents.agent import Agent
from rlstudio.agents.planning import PlanningAgent
from rlstudio.core.config import Config, apply_overrides, parse
from rlstudio.core.contracts import Dynamics, ForPlanning
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanPolicy, PlanValue
from rlstudio.core.model.protocol import Weights
from rlstudio.data.collect.reward_scale import is_wanted
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.worlds.equations import dynamics_of
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.models.planning.dynamics import LearnedDynamics
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig

NO_VALUE = "use planner.value=none"


class Trained(NamedTuple):
    """An agent and how it was trained."""

    agent: Agent
    experiment: ExperimentConfig


def planning_agent(
    agent: Agent,
    experiment: ExperimentConfig,
    settings: Sequence[str],
    *,
    modeller: Trained | None = None,
    learned: Mapping[str, Weights] | None = None,
    reward_scale: float | None = None,
) -> PlanningAgent:
    """`settings` are overrides of the planner's own: kind=mppi, horizon=20. The discount is that of the training, and a
    run whose own agent plans passes on the settings of its planner.
    `modeller` is an agent that learned a model of the same world; `learned` are the weights of all Models of the run,
    which hold the values of SAC and TD3; `reward_scale` is what rewards were divided by in training, which the agent's
    value is still divided by (None: not known, which matters only where they were)."""
    overrides = [f"planner.{setting}" for setting in settings]
    chosen = parse(_Settings, apply_overrides({}, overrides, "--planner")).planner
    given = chosen.model_dump(exclude_unset=True)
    passed_on = {**_passed_on(experiment, chosen.kind), "gamma": experiment.train.gamma}
    cfg = parse(_Settings, {"planner": {**passed_on, "kind": chosen.kind, **given}}, "--planner").planner
    dynamics = _dynamics(agent, experiment) if modeller is None else _learned(modeller, Trained(agent, experiment))
    value = own_value(agent.model, learned or {}, reward_scale or 1.0) if cfg.value == "own" else None
    if value is not None:
        normalize = getattr(experiment.train, "normalize_rewards", False)
        if reward_scale is None and is_wanted(normalize, agent.spaces.action):
            raise Incompatible(
                "planner value own: what train.normalize_rewards divided rewards by is not known; export the run again,"
                f" or {NO_VALUE}"
            )
        _check_units(experiment, experiment if modeller is None else modeller.experiment, dynamics)
    planner = build_planner(cfg, agent.spaces.action, own_policy(agent.model))
    score = build_score(cfg, dynamics, experiment.env.id, gamma=cfg.gamma, own=value)
    return PlanningAgent(planner, score, agent.spaces)


class _Settings(Config):
    planner: PlannerConfig = PlannerConfig()


PASSED_ON = ("horizon", "candidates", "reward", "value", "pessimism", "score", "sticky")
"""Settings that mean the same for every kind of planner."""


def _passed_on(experiment: ExperimentConfig, kind: str) -> dict[str, object]:
    """The settings of the run's own planner that mean the same for a planner of this kind."""
    own = getattr(experiment.train, "planner", None)
    if own is None:
        return {}
    settings: dict[str, object] = own.model_dump(exclude_unset=True)
    if isinstance(own, PlannerConfig) and own.kind == kind:
        return settings
    return {name: settings[name] for name in PASSED_ON if name in settings}


def _dynamics(agent: Agent, experiment: ExperimentConfig) -> Dynamics:
    if isinstance(agent, PlanningAgent):
        return agent.score.dynamics
    return dynamics_of(experiment.eval_env)


def _learned(modeller: Trained, trained: Trained) -> Dynamics:
    lender = modeller.agent
    if not (isinstance(lender, PlanningAgent) and isinstance(lender.score.dynamics, LearnedDynamics)):
        raise Incompatible("--dynamics: that run learned no model of its world; mbmpc and diffusion can")
    theirs, ours = _world(modeller), _world(trained)
    for field, value in theirs.items():
        if value != ours[field]:
            raise Incompatible(
                f"--dynamics: that run was trained in another world: its {field} is {value}, here {ours[field]};"
                " name a run of this world"
            )
    return lender.score.dynamics


def _world(trained: Trained) -> dict[str, object]:
    """What makes a world what it is: equal spaces alone do not."""
    env: EnvConfig = trained.experiment.env
    numbers = {"env.kwargs": dict(env.kwargs), "env.params": dict(env.params)}
    settings = {"env.id": env.id, **numbers, "env.wrappers": env.wrapper_calls()}
    return {**settings, "spaces": trained.agent.spaces}


def _check_units(experiment: ExperimentConfig, modeller: ExperimentConfig, dynamics: Dynamics) -> None:
    """A plan adds the value to the rewards of its model: both must be of the same units."""
    clip, rewards = _reward_clip(experiment), dynamics.reward_range
    if rewards is None:  # they are learned, as their run saw them
        theirs = _reward_clip(modeller)
        same, reason = clip == theirs, f"{theirs or 'null'} where the model learned its rewards"
    else:
        same = clip is None or max(map(abs, rewards)) <= clip
        reason = f"the world's rewards are {rewards[0]:g} to {rewards[1]:g}"
    if not same:
        raise Incompatible(
            f"planner value own: guardrails.reward_clip was {clip or 'null'} where it was learned, and {reason};"
            f" {NO_VALUE}"
        )


def _reward_clip(experiment: ExperimentConfig) -> float | None:
    """What rewards were cut to; those of a dataset never are."""
    return None if getattr(experiment.train, "dataset", None) else experiment.guardrails.reward_clip


def own_value(model: object, learned: Mapping[str, Weights], scale: float = 1.0) -> PlanValue | None:
    """What a Model takes to be still to come, times `scale`; None where it has no value."""
    value = model.value_for_plan(learned) if isinstance(model, ForPlanning) else None
    if value is None or scale == 1.0:
        return value
    return lambda observations: value(observations) * scale


def own_policy(model: object) -> PlanPolicy | None:
    """What a Model would do, in the units of a plan; None where it says nothing of it."""
    return model.policy_for_plan() if isinstance(model, ForPlanning) else None
