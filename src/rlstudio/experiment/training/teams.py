"""From the section `teams` to which agents each team has, and to a trainer for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from rlstudio.core.contracts import NamedAgents, Runtime, Trainer, VecEnv
from rlstudio.core.errors import ConfigError, Incompatible, suggest
from rlstudio.core.spaces import describe
from rlstudio.data.runtime import LocalRuntime
from rlstudio.data.teams.columns import TeamColumns
from rlstudio.data.teams.joint import Joint
from rlstudio.data.teams.runtime import TeamRuntime
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.config.teams import TeamConfig
from rlstudio.experiment.training.teams_trainer import TeamsTrainer


def assigned(teams: Mapping[str, TeamConfig], env: VecEnv, env_id: str) -> dict[str, TeamColumns]:
    """Which agents each team has: every agent belongs to exactly one, and a team's agents have the same spaces."""
    if env.agents == 1:
        raise Incompatible(f"teams: {env_id} has one agent; leave teams out")
    if not isinstance(env, NamedAgents):
        raise Incompatible(f"teams: {env_id} does not say which agents it has (agent_names); leave teams out")
    names = env.agent_names
    owner: dict[int, str] = {}
    columns = {}
    for team, cfg in teams.items():
        numbers = sorted({number for pattern in cfg.agents for number in _matching(team, pattern, names)})
        for number in numbers:
            if number in owner:
                raise ConfigError(
                    f"teams.{team}.agents: {names[number]} is of the team {owner[number]} already; leave it out of one"
                )
            owner[number] = team
        columns[team] = _columns(team, numbers, env)
    if left := [name for number, name in enumerate(names) if number not in owner]:
        raise ConfigError(f"teams: {', '.join(left)} of {env_id} has no team; add it to the agents of one")
    return columns


def _matching(team: str, pattern: str | int, names: tuple[str, ...]) -> list[int]:
    """The numbers of the agents that a name, a pattern or a number means."""
    if isinstance(pattern, int):
        matches = [pattern] if 0 <= pattern < len(names) else []
    else:
        matches = [number for number, name in enumerate(names) if fnmatchcase(name, pattern)]
    if not matches:
        near = suggest(str(pattern), names) or f"; there are: {', '.join(names)}"
        raise ConfigError(f"teams.{team}.agents: no agent {pattern!r}{near}")
    return matches


def _columns(team: str, numbers: list[int], env: NamedAgents) -> TeamColumns:
    first, *others = numbers
    spaces = env.agent_spaces[first]
    for number in others:
        for field in ("observation", "action"):
            one, other = getattr(spaces, field), getattr(env.agent_spaces[number], field)
            if one != other:
                raise Incompatible(
                    f"teams.{team}.agents: the {field} of {env.agent_names[first]} is {describe(one)}, that of"
                    f" {env.agent_names[number]} is {describe(other)}; agents of one policy have the same, so give them"
                    " teams of their own"
                )
    return TeamColumns(tuple(numbers), len(env.agent_names), spaces)


TeamTrainer = Callable[[ExperimentConfig, Runtime, str], Trainer]
"""A trainer by the config of its team, over its runtime, with random numbers by its name."""


def teams_trainer(cfg: ExperimentConfig, runtime: Runtime, new_trainer: TeamTrainer) -> TeamsTrainer:
    """A trainer for each team, over the same environments."""
    if not isinstance(runtime, LocalRuntime):
        raise Incompatible("teams: they act together in environments of this process only; leave teams out")
    joint = Joint(runtime, assigned(cfg.teams, runtime.env, cfg.env.id))
    trainers = {}
    for name in cfg.teams:
        try:
            trainers[name] = new_trainer(cfg.of_team(name), TeamRuntime(joint, name), name)
        except (ConfigError, Incompatible) as error:
            raise type(error)(_within(name, str(error))) from error
    return TeamsTrainer(joint, trainers)


def _within(team: str, message: str) -> str:
    """A message about the settings of one team, with its place."""
    return f"teams.{team}.{message}" if message.startswith(("policy.", "train.")) else message
