"""SelfPlay: who sits opposite the learner in each episode of training.

The kind of opponent, which snapshot, and the learner's seat are a pure function of (seed, env, episode) and of the pool
as it was at the end of the last epoch. Snapshots are weights; pool, scores, counts and open assignments are part of the
environment's position, so a run that is cut goes on against the same opponents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from rlstudio.agents.agent import Agent
from rlstudio.agents.rebuild import described, rebuilt
from rlstudio.agents.seat import AgentPlayer
from rlstudio.core.contracts import Agent as AnyAgent
from rlstudio.core.contracts import Array, State, VecEnv
from rlstudio.core.contracts.arrays import AnyArray
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.model.protocol import Weights
from rlstudio.core.rng import Rng
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.named_players import named_player
from rlstudio.envs.seats.config import LATEST, LEARNED, PAST, PLANNER, RANDOM, SelfPlayConfig
from rlstudio.envs.seats.player import SeatPlayer
from rlstudio.envs.seats.seated import SeatedVecEnv
from rlstudio.envs.seeds import episode_words, to_uniform
from rlstudio.experiment.self_play.pool import LEARNER, OpponentPool

FIRST_SNAPSHOT = 1000
"""Number of the first snapshot among the opponents; below it are the kinds, in the order of the config."""


class SelfPlay:
    """Implements `Opponents`. `new_search` makes a planner of the learner."""

    def __init__(
        self, cfg: SelfPlayConfig, env_cfg: EnvConfig, env: VecEnv, new_search: Callable[[AnyAgent], SeatPlayer]
    ) -> None:
        self.cfg = cfg
        self.kinds = [kind for kind, weight in cfg.opponents.items() if weight > 0]
        weights = np.array([cfg.opponents[kind] for kind in self.kinds])
        self._up_to = np.cumsum(weights / weights.sum())[:-1]
        self._seats = env.agents
        self._scripted: dict[int, SeatPlayer] = {
            number: named_player(kind, env_cfg, env.spaces, "self_play.opponents", LEARNED)
            for number, kind in enumerate(self.kinds)
            if kind not in LEARNED
        }
        self._new_search = new_search
        self._key = int(Rng(env_cfg.seed).fork("opponents").generator().integers(-(2**63), 2**63, dtype=np.int64))
        self._learner: AnyAgent | None = None
        self.start()

    def start(self) -> None:
        """As it is before the first episode."""
        fixed = [number for number, kind in enumerate(self.kinds) if kind not in (LATEST, PAST)]
        self.pool = OpponentPool(sorted(fixed, key=lambda number: self.kinds[number] != RANDOM), self.cfg.pool)
        self.chances = np.zeros(0)
        self.epoch = self.taken = self.last_taken = 0  # epochs, snapshots, and the epoch of the last one
        self.counts = np.zeros((len(self.kinds), 3))  # of this epoch: wins, draws and losses against each kind
        self.weights: dict[int, Weights] = {}
        self._players: dict[int, SeatPlayer] = dict(self._scripted)

    def bind(self, learner: AnyAgent) -> None:
        """From now on `latest` is this one."""
        if PAST in self.kinds and described(learner) is None:
            raise Incompatible(
                "self_play.opponents: past: the agent of this algorithm cannot be built again from its weights; leave"
                " past out"
            )
        self._learner = learner
        self._players = dict(self._scripted)

    # -- Opponents ----------------------------------------------------------------------------------------------------

    def assign(self, envs: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = (cast(AnyArray, numbers) for numbers in (envs[:, None], episodes[:, None], np.arange(3)))
        which, snapshot, seat = cast(np.ndarray, to_uniform(episode_words(self._key, *places))).T
        numbers = np.searchsorted(self._up_to, which, "right")
        if PAST in self.kinds:
            numbers = np.where(numbers == self.kinds.index(PAST), self._past(snapshot), numbers)
        return (seat * self._seats).astype(np.int64), numbers

    def _past(self, uniform: np.ndarray) -> np.ndarray:
        """A snapshot by its chances; the learner itself while there is none."""
        if not len(self.chances):
            return np.full(len(uniform), LEARNER)
        return np.array(self.pool.snapshots)[np.searchsorted(np.cumsum(self.chances)[:-1], uniform, "right")]

    def player(self, opponent: int) -> SeatPlayer:
        if opponent not in self._players:
            assert self._learner is not None, "nobody learns in these environments yet"
            if opponent >= FIRST_SNAPSHOT:
                self._players[opponent] = self._rebuilt(self.weights[opponent])
            elif opponent != LEARNER and self.kinds[opponent] == PLANNER:
                self._players[opponent] = self._new_search(self._learner)
            else:
                self._players[opponent] = AgentPlayer(self._learner)
        return self._players[opponent]

    def record(self, opponent: int, paid: float) -> None:
        kind = LATEST if opponent == LEARNER else PAST if opponent >= FIRST_SNAPSHOT else self.kinds[opponent]
        if kind in self.kinds:
            self.counts[self.kinds.index(kind), 0 if paid > 0 else 1 if paid == 0 else 2] += 1
        if opponent in self.pool.members and opponent != LEARNER:
            self.pool.record(opponent, 1.0 if paid > 0 else 0.5 if paid == 0 else 0.0)

    # -- epochs --------------------------------------------------------------------------------------------------------

    def close_epoch(self, in_play: set[int]) -> dict[str, float]:
        """What the epoch was like; the learner joins the pool where that is due."""
        self.epoch += 1
        against_others = [number for number, kind in enumerate(self.kinds) if kind != LATEST]
        games = self.counts[against_others].sum(0)
        metrics = _rates("self_play", games)
        for kind, counts in zip(self.kinds, self.counts, strict=True):
            metrics |= _rates(f"self_play/{kind}", counts)
        if PAST in self.kinds:
            wins, least = games[0], self.cfg.snapshot_win_rate
            is_strong = least is not None and games.sum() > 0 and wins >= least * games.sum()
            if is_strong or self.epoch - self.last_taken >= self.cfg.snapshot_every:
                self._take_snapshot(in_play)
            self.chances = self.pool.chances(self.cfg.prioritise)
            metrics["self_play/snapshots"] = float(len(self.pool.snapshots))
        if self.pool.scores.any():
            elo, low, high = self.pool.ratings()
            metrics |= {"self_play/elo": elo[0], "self_play/elo_low": low[0], "self_play/elo_high": high[0]}
        self.counts[:] = 0
        return {name: float(value) for name, value in metrics.items()}

    def _take_snapshot(self, in_play: set[int]) -> None:
        assert isinstance(self._learner, Agent)
        number = FIRST_SNAPSHOT + self.taken
        state = self._learner.model.state_dict()
        self.weights[number] = {name: tensor.numpy(force=True).copy() for name, tensor in state.items()}
        for dropped in self.pool.add(number, in_play):
            del self.weights[dropped]
            self._players.pop(dropped, None)
        self.taken, self.last_taken = self.taken + 1, self.epoch

    def _rebuilt(self, weights: Weights) -> SeatPlayer:
        assert self._learner is not None
        spec = described(self._learner)
        assert spec is not None
        return AgentPlayer(rebuilt(self._learner.spaces, spec, weights))

    def state_dict(self) -> State:
        return {
            "kinds": list(self.kinds),
            "pool": self.pool.state_dict(),
            "chances": self.chances.copy(),
            "counts": self.counts.copy(),
            **{name: getattr(self, name) for name in ("epoch", "taken", "last_taken")},
            "weights": {str(number): dict(weights) for number, weights in self.weights.items()},
        }

    def load_state_dict(self, state: State) -> None:
        before = list(state.get("kinds", self.kinds))  # older checkpoints have none
        if before != self.kinds or np.shape(state["counts"]) != self.counts.shape:
            raise ConfigError(
                f"self_play.opponents: a run that goes on keeps its kinds of opponents ({', '.join(before)}), and these"
                f" are {', '.join(self.kinds)}; change their weights only"
            )
        self.pool.load_state_dict(state["pool"])
        self.chances, self.counts = np.array(state["chances"], float), np.array(state["counts"], float)
        self.epoch, self.taken, self.last_taken = (int(state[name]) for name in ("epoch", "taken", "last_taken"))
        self.weights = {int(number): weights for number, weights in state["weights"].items()}
        self._players = dict(self._scripted)


class SelfPlayVecEnv(SeatedVecEnv):
    """Environments in which the learner plays itself and others. The pool travels with their position."""

    def __init__(self, inner: VecEnv, self_play: SelfPlay, seed: int) -> None:
        super().__init__(inner, self_play, seed)
        self.self_play = self_play

    def bind(self, learner: AnyAgent) -> None:
        self.self_play.bind(learner)

    def close_epoch(self) -> dict[str, float]:
        return self.self_play.close_epoch(self.opponents_in_play())

    def reset(self) -> Array:
        self.self_play.start()
        return super().reset()

    def position(self) -> State:
        return {**super().position(), "self_play": self.self_play.state_dict()}

    def seek(self, position: State) -> Array:
        if "self_play" in position:
            self.self_play.load_state_dict(position["self_play"])
        return super().seek(position)


def _rates(name: str, counts: np.ndarray) -> dict[str, float]:
    """Shares of wins, draws and losses; nothing where no game was played."""
    games = counts.sum()
    if not games:
        return {}
    return {f"{name}/{what}_rate": count / games for what, count in zip(("win", "draw", "loss"), counts, strict=True)}
