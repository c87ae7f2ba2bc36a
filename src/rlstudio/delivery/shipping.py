"""Whether the agent of an experiment can leave its run as a bundle, and by which description."""

from __future__ import annotations

from rlstudio.agents.agent import Agent
from rlstudio.agents.planning import PlanningAgent
from rlstudio.agents.rebuild import model_spec
from rlstudio.agents.teams import TeamsAgent
from rlstudio.core.contracts import Player
from rlstudio.core.errors import Incompatible
from rlstudio.delivery.deployed import Deployed
from rlstudio.delivery.plan import PlanSpec, check_plan, plan_spec
from rlstudio.delivery.planned import facts_of
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.models.spec import ModelSpec


def shipped(cfg: ExperimentConfig, agent: Player) -> ModelSpec | PlanSpec:
    """What an agent is built again from; Incompatible, with the reason, where no bundle can hold it."""
    if isinstance(agent, TeamsAgent):
        raise Incompatible(
            f"the run has the teams {', '.join(agent.teams)}, and a bundle is the policy of one; write it with:"
            f" rlctl export RUN --team {next(iter(agent.teams))} -o DIR"
        )
    if not isinstance(agent, PlanningAgent):
        return model_spec(getattr(agent, "model", None))
    plan = plan_spec(cfg)
    check_plan(cfg.policy.algo, plan, agent.spaces)
    return plan


def check_ships(cfg: ExperimentConfig, agent: Player) -> None:
    """Refuse `register.model` before the training whose result could not be registered."""
    if cfg.register.model is None:
        return
    if cfg.teams:
        raise Incompatible(
            f"register.model: the run has the teams {', '.join(cfg.teams)}, and a version is the policy of one; leave"
            " register out, and write each with: rlctl export RUN --team TEAM -o DIR"
        )
    try:
        shipped(cfg, agent)
        if isinstance(agent, PlanningAgent):
            facts_of(agent)
        elif isinstance(agent, Agent):
            Deployed(agent)
    except Incompatible as error:
        raise Incompatible(
            f"register.model: the agent of {cfg.policy.algo} cannot become a version: {error}; leave register out"
        ) from error
