"""Who takes part in a tournament: trained policies, the same with a tree search, and players by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rlstudio.agents.agent import Agent
from rlstudio.agents.seat import AgentPlayer
from rlstudio.core.errors import Incompatible
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.named_players import named_player
from rlstudio.envs.seats.player import SeatPlayer
from rlstudio.experiment.self_play.build import search_by, searchable


def distinct(names: Sequence[str], ids: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """A label for each policy: its name, with its id where names repeat, with a number where that is not enough, as for
    a run beside its own bundle. No label is one of those that are taken."""
    labels = list(names)
    if len({*names, *taken}) < len(names) + len({*taken}):
        labels = [f"{name} {id}" for name, id in zip(names, ids, strict=True)]
    counts = Counter[str]()
    for place, label in enumerate(labels):
        counts[label] += 1
        if counts[label] > 1:
            labels[place] = f"{label} #{counts[label]}"
    return labels


def entrants(
    agents: Mapping[str, Agent], names: Sequence[str], cfg: EnvConfig, simulations: int = 0
) -> dict[str, SeatPlayer]:
    """By name. `simulations` of a search that follows the network; 0: without one."""
    players: dict[str, SeatPlayer] = {}
    for name, agent in agents.items():
        if agent.remembers:
            raise Incompatible(f"{name}: a policy with memory cannot wait for its turn, so it plays no tournament")
        players[name] = AgentPlayer(agent)
        if simulations:
            players[f"{name} + search"] = search_by(agent, searchable(cfg, "--simulations"), simulations, greedy=True)
    env = make_vec_env(cfg, 1)
    env.close()
    return players | {name: named_player(name, cfg, env.spaces, "--player") for name in names}
