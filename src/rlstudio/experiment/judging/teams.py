"""What each team, and each agent of it, earned in an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rlstudio.core.contracts import Player

if TYPE_CHECKING:
    from rlstudio.data.teams.columns import TeamColumns

ByTeam = dict[str, dict[str, tuple[float, ...]]]
"""Returns of the episodes by team and agent."""


@runtime_checkable
class OfTeams(Protocol):
    """A player of several teams, `agents.teams.TeamsAgent`, without importing torch to know one."""

    teams: Mapping[str, object]
    names: tuple[str, ...]
    columns: Mapping[str, TeamColumns]


def returns_by_team(returns: Sequence[float], player: Player) -> ByTeam:
    """Of episodes in the order of their numbers; nothing where the player is not of several teams. An agent without an
    episode is left out."""
    if not isinstance(player, OfTeams):
        return {}
    every = len(player.names)
    return {
        team: {player.names[k]: tuple(returns[k::every]) for k in columns.numbers if k < len(returns)}
        for team, columns in player.columns.items()
    }


def team_means(teams: ByTeam) -> dict[str, float]:
    """`TEAM/return_mean`, and `TEAM/AGENT/return_mean` where a team has several agents."""
    means = {}
    for team, agents in teams.items():
        every = [value for returns in agents.values() for value in returns]
        if every:
            means[f"{team}/return_mean"] = fmean(every)
        if len(agents) > 1:
            means |= {f"{team}/{agent}/return_mean": fmean(returns) for agent, returns in agents.items()}
    return means
