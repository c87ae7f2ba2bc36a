"""Players by their names: `random` of every environment, others of a World that brings them (`players`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import VecEnv, World
from rlstudio.core.errors import ConfigError, EnvFault, Incompatible, raised, suggest
from rlstudio.core.spaces import Spaces
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.seats.config import RANDOM
from rlstudio.envs.seats.player import CheckedPlayer, RandomPlayer, SeatPlayer
from rlstudio.envs.seats.seated import SeatedVecEnv, refuse_seats
from rlstudio.envs.worlds.catalog import make_world

EVALUATED = "eval.opponents"


def named_player(name: str, cfg: EnvConfig, spaces: Spaces, field: str, others: Sequence[str] = ()) -> SeatPlayer:
    """The player of that name; ConfigError where the environment has none. `others`: what `field` takes besides."""
    if name == RANDOM:
        return RandomPlayer(spaces)
    world = make_world(cfg.id, cfg.kwargs) if cfg.id in WORLDS else None
    players: Mapping[str, Callable[[World[np.ndarray]], object]] = getattr(world, "players", {})
    if world is None or name not in players:
        known = [*others, RANDOM, *players]
        near = suggest(name, known) or f"; known: {', '.join(known)}"
        raise ConfigError(f"{field}: {cfg.id} has no opponent {name!r}{near}")
    title = f"{field}: the player {name!r} of {cfg.id}"
    try:
        player = players[name](world)
    except Exception as error:
        raise EnvFault(f"{title} cannot be made: {raised(error)}") from error
    if not isinstance(player, SeatPlayer):
        raise Incompatible(f"{title} is a {type(player).__name__} without `choose(observations, uniform)`")
    return player if cfg.id in WORLDS.builtin else CheckedPlayer(player, title, spaces)


class FixedOpponents:
    """For evaluation: the episodes go through the opponents in turn, and against each of them through the seats."""

    def __init__(self, players: Sequence[SeatPlayer], num_envs: int, seats: int) -> None:
        self._players = players
        self._num_envs, self._seats = num_envs, seats

    def assign(self, envs: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _in_turn(envs + episodes * self._num_envs, len(self._players), self._seats)

    def player(self, opponent: int) -> SeatPlayer:
        return self._players[opponent]

    def record(self, opponent: int, paid: float) -> None:
        """Whoever evaluates counts for itself."""


def evaluation_players(inner: VecEnv, cfg: EnvConfig, names: Sequence[str]) -> list[SeatPlayer]:
    """The opponents of an evaluation; a ConfigError or Incompatible where one cannot be met."""
    refuse_seats(inner, EVALUATED, cfg.id)
    return [named_player(name, cfg, inner.spaces, EVALUATED) for name in names]


def seated_against(inner: VecEnv, cfg: EnvConfig, names: Sequence[str], seed: int) -> SeatedVecEnv:
    """The environments with these opponents in turn, for evaluation."""
    players = evaluation_players(inner, cfg, names)
    return SeatedVecEnv(inner, FixedOpponents(players, inner.num_envs // inner.agents, inner.agents), seed)


def rates_against(names: Sequence[str], seats: int, paid: np.ndarray) -> dict[str, float]:
    """Shares of episodes won, drawn and lost, by what was paid in each [episodes]: `random/win_rate` against each
    opponent, and `random/seat_0/win_rate` from each seat that was played."""
    seat, opponent = _in_turn(np.arange(len(paid)), len(names), seats)
    rates: dict[str, float] = {}
    for number, name in enumerate(names):
        its = {name: opponent == number}
        its |= {f"{name}/seat_{place}": (opponent == number) & (seat == place) for place in range(seats)}
        for label, rows in its.items():
            if rows.any():
                results = {"win_rate": paid[rows] > 0, "draw_rate": paid[rows] == 0, "loss_rate": paid[rows] < 0}
                rates |= {f"{label}/{what}": float(is_so.mean()) for what, is_so in results.items()}
    return rates


def _in_turn(numbers: np.ndarray, opponents: int, seats: int) -> tuple[np.ndarray, np.ndarray]:
    """The learner's seat and its opponent in the episodes of these numbers, counted over all environments."""
    rounds, opponent = np.divmod(numbers, opponents)
    return rounds % seats, opponent
