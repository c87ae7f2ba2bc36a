"""A tournament of a game for two: everyone meets everyone, equally often from either seat; wins, draws and ratings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK
from rlstudio.core.errors import Incompatible, UserError
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.seats.config import RANDOM
from rlstudio.envs.seats.player import RandomPlayer, SeatPlayer
from rlstudio.envs.seats.seated import rows_of
from rlstudio.experiment.analysis.curves import COLOURS, STYLE, SUFFIXES, save_figure
from rlstudio.ops.ratings import Ratings, bradley_terry
from rlstudio.storage.output_file import output_path

LONGEST = 10_000
"""Steps after which a game is taken to have no end."""

DARK = 0.3
"""How far from a half a score must be for its cell to need white letters."""


@dataclass(frozen=True)
class Tournament:
    """`wins[i, j]`: games that i won against j, and `draws[i, j]`; the ratings are relative to `random`, or to the mean
    of all where it did not take part."""

    env_id: str
    games: int
    names: tuple[str, ...]
    wins: np.ndarray
    draws: np.ndarray
    ratings: Ratings

    def scores(self) -> np.ndarray:
        """The share of games [n, n] that the row won against the column, draws as half; NaN of nobody against
        itself."""
        shares: np.ndarray = (self.wins + self.draws / 2) / self.games
        return np.where(np.eye(len(self.names), dtype=bool), np.nan, shares)

    def order(self) -> list[int]:
        """The players from the best to the worst."""
        return sorted(range(len(self.names)), key=lambda place: -self.ratings.elo[place])

    def to_json(self) -> dict[str, object]:
        numbers = zip(self.names, *(part.tolist() for part in self.ratings), strict=True)
        players = [{"name": name, "elo": elo, "elo_low": low, "elo_high": high} for name, elo, low, high in numbers]
        table = {"wins": self.wins.tolist(), "draws": self.draws.tolist()}
        return {"env_id": self.env_id, "games": self.games, "players": players, **table}


def play_tournament(players: Mapping[str, SeatPlayer], cfg: EnvConfig, games: int, seed: int) -> Tournament:
    """`games` of every two players, half of them from each seat."""
    if len(players) < 2:
        raise UserError("a tournament needs two players; name another run, or --player random")
    names, rng = tuple(players), Rng(seed).fork("tournament")
    wins, draws = np.zeros((2, len(names), len(names)))
    for one, other in combinations(range(len(names)), 2):
        lead = meet(players[names[one]], players[names[other]], cfg, games, rng.fork(f"{one}-{other}"))
        wins[one, other], wins[other, one] = (lead > 0).sum(), (lead < 0).sum()
        draws[one, other] = draws[other, one] = (lead == 0).sum()
    reference = names.index(RANDOM) if RANDOM in names else None
    return Tournament(cfg.id, games, names, wins, draws, bradley_terry(wins + draws / 2, reference=reference))


def meet(one: SeatPlayer, other: SeatPlayer, cfg: EnvConfig, games: int, rng: Rng) -> np.ndarray:
    """By how much the first of two players is paid more in each of so many games, all played side by side: both may
    gain, or lose, in a game."""
    env = make_vec_env(cfg, games, int(rng.fork("envs").generator().integers(2**32)))
    action = env.spaces.action
    if env.agents != 2 or not isinstance(action, Discrete):
        env.close()
        raise Incompatible(f"{cfg.id}: a tournament is of a game for two agents, each of whom makes one choice")
    seats = np.arange(games) % 2  # of the first player
    is_others = np.arange(2 * games) % 2 != np.repeat(seats, 2)
    others = RandomPlayer(env.spaces)
    observations, paid, is_open = env.reset(), np.zeros((games, 2)), np.ones((games, 2), bool)
    for number in range(LONGEST):
        uniform = rng.at("choices", number).random((2 * games, action.n)).clip(1e-12)
        # Where a game is over the next one goes on beside the others, by chance: nobody is asked, and all is allowed.
        actions, asked = others.choose(observations, uniform).astype(np.int64), is_open.reshape(-1).copy()
        if isinstance(observations, dict) and ACTION_MASK in observations:
            asked &= observations[ACTION_MASK].any(-1)
        for player, its in ((one, ~is_others), (other, is_others)):
            if len(rows := np.flatnonzero(asked & its)):
                actions[rows] = player.choose(rows_of(observations, rows), uniform[rows])
        step = env.step(actions)
        observations = step.observations
        paid += np.where(is_open, step.rewards.reshape(games, 2), 0.0)
        is_open &= ~(step.terminated | step.truncated).reshape(games, 2)
        if not is_open.any():
            env.close()
            return np.asarray(paid[np.arange(games), seats] - paid[np.arange(games), 1 - seats])
    env.close()
    raise Incompatible(f"{cfg.id}: a game did not end within {LONGEST} steps; set env.max_episode_steps")


def draw_tournament(tournament: Tournament, path: str | Path) -> Path:
    """The win matrix and the ratings with their intervals, as a PNG, SVG or PDF file."""
    target = output_path(path, SUFFIXES)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    order = tournament.order()
    names, scores = [tournament.names[place] for place in order], tournament.scores()[np.ix_(order, order)]
    elo, low, high = (part[order] for part in tournament.ratings)
    places = np.arange(len(names))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 2.0 + 0.5 * len(names)), dpi=150, layout="constrained")
        table, bars = figure.subplots(1, 2)
        table.imshow(scores, cmap="PRGn", vmin=0.0, vmax=1.0)
        for row, column in np.argwhere(~np.isnan(scores)):
            score = scores[row, column]
            colour = "white" if abs(score - 0.5) > DARK else "#222222"
            table.text(column, row, f"{score:.2f}", ha="center", va="center", fontsize=8, color=colour)
        table.set_xticks(places, names, rotation=45, ha="right")
        table.set_yticks(places, names)
        table.set_title("score against the column", loc="left", fontsize=10)
        bars.errorbar(elo, places, xerr=(elo - low, high - elo), fmt="o", color=COLOURS[0], capsize=3)
        bars.set_yticks(places, names)
        bars.invert_yaxis()
        bars.grid(axis="x", color="#E4E4E4", linewidth=0.8)
        bars.set_title("Elo, 95 % interval", loc="left", fontsize=10)
        figure.suptitle(f"{tournament.env_id}, {tournament.games} games of every two players", fontsize=11)
        save_figure(figure, target)
    return target
