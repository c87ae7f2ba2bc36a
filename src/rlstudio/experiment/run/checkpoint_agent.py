"""The agent of a checkpoint, built from its manifest, without environment, replay and trainer.

A manifest describes spaces and Model; an agent that plans is built by its algorithm, from the spaces and the config of
the run. Only `_through_trainer` builds everything that training needs.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from rlstudio.agents.agent import Agent
from rlstudio.agents.rebuild import rebuilt
from rlstudio.agents.teams import TeamsAgent
from rlstudio.core.contracts import BuildsAgent
from rlstudio.core.errors import CheckpointError, Incompatible, UserError, suggest
from rlstudio.core.rng import Rng
from rlstudio.data.collect.reward_scale import RewardScale
from rlstudio.data.env_facts import EnvDescription
from rlstudio.data.teams.columns import TeamColumns
from rlstudio.experiment.checkpoint.agent_spec import AgentSpec, read_agent, reward_scale_of
from rlstudio.experiment.checkpoint.checkpoints import Loaded
from rlstudio.experiment.checkpoint.manifest import folder_name
from rlstudio.experiment.checkpoint.team_spec import TeamSpec, TeamsSpec, read_teams
from rlstudio.experiment.config.algorithm import algorithm
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.teams_trainer import of_team
from rlstudio.models.weights import load_weights
from rlstudio.storage.verified import MANIFEST


class Acting(NamedTuple):
    agent: Agent
    reward_scale: float  # what rewards were divided by in training, and the agent's value with them


def agent_of(cfg: ExperimentConfig, checkpoint: Loaded) -> Acting:
    """The agent, on the CPU; of several teams all of them as one. CheckpointError where the weights do not fit the
    Model that the manifest describes."""
    if cfg.teams:
        return Acting(teams_of(cfg, checkpoint), 1.0)
    spec = read_agent(checkpoint.info)
    agent = None if spec is None else _described(spec, cfg, checkpoint)
    if spec is None or agent is None:
        return _through_trainer(cfg, checkpoint)
    return Acting(agent, spec.reward_scale)


def team_agent_of(cfg: ExperimentConfig, checkpoint: Loaded, team: str) -> Acting:
    """The agent of one team, as `agent_of` has that of a run without teams."""
    if not cfg.teams:
        raise UserError(f"--team {team}: the run has no teams; leave it out")
    if team not in cfg.teams:
        near = suggest(team, cfg.teams) or f"; it has: {', '.join(cfg.teams)}"
        raise UserError(f"--team {team}: the run has no such team{near}")
    return _of_team(team, _teams_spec(checkpoint).teams[team], cfg, checkpoint)


def _of_team(team: str, spec: TeamSpec, cfg: ExperimentConfig, checkpoint: Loaded) -> Acting:
    agent = _described(spec, cfg.of_team(team), checkpoint, of_team(team, "model"))
    if agent is None:
        raise Incompatible(
            f"teams.{team}.policy.algo: the agent of {cfg.of_team(team).policy.algo} cannot be built again from a"
            " checkpoint: it acts only in training"
        )
    return Acting(agent, spec.reward_scale)


def teams_of(cfg: ExperimentConfig, checkpoint: Loaded) -> TeamsAgent:
    """The agents of all teams as one."""
    spec = _teams_spec(checkpoint)
    agents = {name: _of_team(name, team, cfg, checkpoint).agent for name, team in spec.teams.items()}
    columns = {name: TeamColumns(team.agents, len(spec.names), team.spaces) for name, team in spec.teams.items()}
    return TeamsAgent(agents, columns, spec.names, spec.spaces)


def _teams_spec(checkpoint: Loaded) -> TeamsSpec:
    spec = read_teams(checkpoint.info)
    if spec is None:
        raise CheckpointError(
            f"{folder_name(checkpoint.info.step)}/{MANIFEST}: does not describe the agents of its teams; take another"
            " checkpoint"
        )
    return spec


def _described(spec: AgentSpec, cfg: ExperimentConfig, checkpoint: Loaded, model: str = "model") -> Agent | None:
    """None where neither the manifest nor the algorithm knows how to build it alone. `model`: the name of its Model
    among the parts of the trainer."""
    weights = checkpoint.content["module_state"].get(model, {})
    agent = _planning(spec, cfg) if spec.model is None else None
    try:
        if spec.model is not None:
            return rebuilt(spec.spaces, spec.model, weights)
        if agent is not None:
            load_weights(agent.model, weights)
        return agent
    except (Incompatible, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise CheckpointError(
            f"{folder_name(checkpoint.info.step)}: its weights are not of the agent that its {MANIFEST} describes:"
            f" {reason}; take another checkpoint"
        ) from error


def _planning(spec: AgentSpec, cfg: ExperimentConfig) -> Agent | None:
    chosen = algorithm(cfg.policy.algo)
    if not isinstance(chosen, BuildsAgent):
        return None
    env = EnvDescription(spec.spaces, cfg.env)
    agent = chosen.build_agent(cfg.train, env, cfg.policy.network, Rng(cfg.env.seed))
    return cast("Agent | None", agent)  # what is built here is one of ours, or has a Model all the same


def _through_trainer(cfg: ExperimentConfig, checkpoint: Loaded) -> Acting:
    """For a checkpoint of an older RLStudio, and for an agent that only its own Trainer knows how to build: with one
    environment, and memory for the whole replay."""
    alone = {
        "env": cfg.env.model_copy(update={"num_envs": 1}),
        "runtime": cfg.runtime.model_copy(update={"learners": 1}),
    }
    cfg = cfg.model_copy(update=alone)
    runtime = build_runtime(cfg)
    try:
        trainer = build_trainer(cfg, runtime)
    finally:
        runtime.close()
    agent = trainer.agent
    if not isinstance(agent, Agent):
        raise Incompatible(
            f"policy.algo: the agent of {cfg.policy.algo} is no rlstudio.agents.agent.Agent: it acts only in training"
        )
    load_weights(agent.model, checkpoint.content["module_state"]["model"])
    scale = trainer.stateful().get("reward_scale")
    if isinstance(scale, RewardScale):
        scale.load_state_dict(checkpoint.content["trainer_state"]["reward_scale"])
    return Acting(agent, reward_scale_of(trainer))
