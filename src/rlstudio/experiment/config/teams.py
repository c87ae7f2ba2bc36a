"""The section `teams`: several policies that learn in one run, each for some of the agents.

What a team does not say comes from the experiment's own `policy` and `train`. A team with another algorithm takes of
`policy` what was set there, of `train` the length of the run and the discount; the rest are that algorithm's defaults,
which are written down with the run, so that it goes on with what it began with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, NoReturn, cast

from pydantic import Field, JsonValue, ValidationError

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.catalog import ALGOS
from rlstudio.core.config import Config, refuse
from rlstudio.core.parsing.problems import problems
from rlstudio.core.parsing.sections import Section
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.config.agreement import check_batch, check_layers, check_statements
from rlstudio.experiment.config.algorithm import algorithm, train_section
from rlstudio.experiment.config.sections import EvalConfig, PolicyConfig

TEAM_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
OF_THE_RUN = ("epochs", "steps_per_epoch", "total_steps")


class TeamConfig(Config):
    agents: tuple[str | int, ...] = Field(min_length=1, max_length=1024)
    """Agents of the environment that act and learn with this team's policy: names, patterns like `adversary_*`, or
    numbers from 0."""

    policy: dict[str, JsonValue] = {}
    """What differs from the section `policy`, for example `{algo: dqn}` or `{network: {hidden_sizes: [256]}}`."""

    train: dict[str, JsonValue] = {}
    """What differs from the section `train`; the length of the run is the same for all teams."""


class TeamSettings(NamedTuple):
    """How one team learns."""

    policy: PolicyConfig
    train: RunLength


def check_team_names(names: Mapping[str, object]) -> None:
    for name in names:
        if not TEAM_NAME.fullmatch(name):
            raise ValueError(f"{name!a} is no name of a team; use 1 to 32 letters, digits, _ and -")


def check_opponents(evaluation: EvalConfig, self_play: object | None, teams: Mapping[str, TeamConfig]) -> None:
    """Opponents play the seats that are not the learner's; with teams, every seat is a learner's."""
    field = ("self_play",) if self_play is not None else ("eval", "opponents")
    if teams and (self_play is not None or evaluation.opponents):
        refuse(field, f"with teams every agent learns ({', '.join(teams)}), so no seat is left; leave one of them out")


def check_drawn_params(env: EnvConfig, curriculum: object | None, teams: Mapping[str, TeamConfig]) -> None:
    """A curriculum follows one success; that of one team is often the failure of another."""
    if not teams:
        return
    if curriculum is not None:
        refuse(("curriculum",), f"it cannot follow the teams {', '.join(teams)} at once; leave one of the two out")
    if observed := [each.name for each in env.parameters if each.observed]:
        refuse(
            ("env", "params", observed[0]),
            f"with teams ({', '.join(teams)}) it cannot be observed, since teams see different things; leave observed"
            " out, and show it in the observations of the world",
        )


def check_eval_team(evaluation: EvalConfig, teams: Mapping[str, TeamConfig]) -> None:
    if evaluation.team is not None and evaluation.team not in teams:
        known = f"there are: {', '.join(teams)}" if teams else "there are none, leave it out"
        refuse(("eval", "team"), f"no team {evaluation.team!a}; {known}")


def settled(name: str, team: TeamConfig, base: TeamSettings) -> TeamConfig:
    """The team with the defaults of its algorithm, where that is not the experiment's."""
    if not _is_other(team, base):
        return team
    algo = str(team.policy["algo"])
    of_algo = train_section(algo) if algo in ALGOS else None  # an unknown one is refused by its field
    defaults = {} if of_algo is None else of_algo.section_defaults.get("policy", {})
    chosen = merged(defaults, base.policy.model_dump(mode="json", exclude_unset=True))
    policy, train = team_settings(name, team.model_copy(update={"policy": merged(chosen, team.policy)}), base)
    kept = train.model_dump(mode="json", exclude=set(OF_THE_RUN))
    return team.model_copy(update={"policy": policy.model_dump(mode="json"), "train": kept})


def team_settings(name: str, team: TeamConfig, base: TeamSettings) -> TeamSettings:
    """The team's own settings over those of the experiment; what is wrong with them is refused by its field."""
    for field in OF_THE_RUN:
        if field in team.train:
            refuse(("teams", name, "train", field), "the length of the run is that of all teams; set it in train")
    other, length = _is_other(team, base), {field: getattr(base.train, field) for field in (*OF_THE_RUN, "gamma")}
    shared_policy = {} if other else base.policy.model_dump(mode="json")
    policy = cast("PolicyConfig", _read(PolicyConfig, merged(shared_policy, team.policy), ("teams", name, "policy")))
    shared_train = length if other else base.train.model_dump(mode="json")
    section = train_section(policy.algo)
    train = cast("RunLength", _read(section, merged(shared_train, team.train), ("teams", name, "train")))
    return TeamSettings(policy, train)


def check_settings(name: str, team: TeamSettings, num_envs: int, capacity: int) -> None:
    """What an experiment of its own would be refused for."""
    chosen = algorithm(team.policy.algo)
    try:
        check_statements(team.policy, team.train, chosen)
        check_layers(team.policy)
        check_batch(team.train, num_envs, capacity if chosen.off_policy else None)
    except ValidationError as error:
        _refuse_in(error, type(team.train), {}, ("teams", name))


def _is_other(team: TeamConfig, base: TeamSettings) -> bool:
    return team.policy.get("algo", base.policy.algo) != base.policy.algo


def merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """`above` over `below`, field by field, also inside sections."""
    both = dict(below)
    for key, value in above.items():
        inside = both.get(key)
        both[key] = merged(inside, value) if isinstance(inside, Mapping) and isinstance(value, Mapping) else value
    return both


def _read(section: type[Config], data: Mapping[str, object], path: tuple[str, ...]) -> Config:
    try:
        return section.model_validate(data)
    except ValidationError as error:
        _refuse_in(error, section, data, path)


def _refuse_in(
    error: ValidationError, section: type[Config], data: Mapping[str, object], path: tuple[str, ...]
) -> NoReturn:
    """The first problem of a section that is read inside a team, with its place there."""
    problem = problems(error, cast("Section", section), data)[0]
    refuse((*path, *problem.path), problem.reason)
