"""TeamsAgent: the agents of several teams as one, for worlds in which each acts on columns of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from rlstudio.agents.agent import Agent
from rlstudio.core.contracts import Acted, Array, Carried, NoiseBlock
from rlstudio.core.contracts import Agent as Acting
from rlstudio.core.errors import UserError, suggest
from rlstudio.core.spaces import Spaces
from rlstudio.data.teams.columns import TeamColumns


class TeamsAgent(Agent):
    """`names` are those of the agents of one environment, `spaces` those that have room for each of them."""

    model = None  # each team has its own

    def __init__(
        self,
        teams: Mapping[str, Acting],
        columns: Mapping[str, TeamColumns],
        names: tuple[str, ...],
        spaces: Spaces,
    ) -> None:
        self.teams = dict(teams)
        self.columns = dict(columns)
        self.names = names
        self.spaces = spaces
        self.acting = "+".join(sorted({agent.acting for agent in teams.values()}))

    def team(self, name: str) -> Agent:
        """The agent of one team."""
        if name not in self.teams:
            near = suggest(name, self.teams) or f"; there are: {', '.join(self.teams)}"
            raise UserError(f"there is no team {name!r}{near}")
        return cast(Agent, self.teams[name])

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> NoiseBlock:
        raise NotImplementedError  # each team collects with its own

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted:
        """Greedy: rows of all agents of all environments, each team on its own."""
        entry = next(iter(observations.values())) if isinstance(observations, dict) else observations
        space = self.spaces.action
        actions = np.zeros((len(entry), *space.shape), space.dtype)  # type: ignore[union-attr]
        for name, agent in self.teams.items():
            columns = self.columns[name]
            columns.put(actions, agent.step(columns.observations(observations)).actions)
        return Acted(actions, {}, None)

    def act(self, observations: Any) -> Any:
        """The greedy action of each agent that is there: observations by the agent's name, actions by it."""
        if not isinstance(observations, Mapping) or not observations.keys() <= set(self.names):
            raise UserError(
                f"the agents of several teams act on observations by name: {', '.join(self.names)}; for one team take"
                f" agent.team({next(iter(self.teams))!r}).act(observation)"
            )
        team_of = {self.names[number]: name for name, columns in self.columns.items() for number in columns.numbers}
        given: Mapping[str, ArrayLike | Mapping[str, ArrayLike]] = observations
        return {name: self.team(team_of[name]).act(observation) for name, observation in given.items()}
