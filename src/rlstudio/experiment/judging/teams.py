"""What each team, and each agent of it, earned in an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rlstudio.agents.teams import TeamsAgent
from rlstudio.core.contracts import Player

ByTeam = dict[str, dict[str, tuple[float, ...]]]
"""Returns of the episodes by team and agent."""


def returns_by_team(returns: Sequence[float], player: Player) -> ByTeam:
    """Of episodes in the order of their numbers; nothing where the player is not of several teams. An agent without an
    episode is left out."""
    if not isinstance(player, TeamsAgent):
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
