"""SeatedVecEnv: environments with several agents, of which the learner has one seat and others play the rest.

One column per environment: that of the learner, whichever seat it has in this episode. Who plays the other seats acts
inside `step`, so collectors, algorithms and evaluation see a vector of one agent that waits while others move
(`active`). Seats and opponents are drawn when an episode starts. What an opponent draws is a pure function of (seed,
env, episode, step, seat), so nobody's choice depends on the order in which others are asked.

Dims: E environments, each of `agents` seats; A choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK
from rlstudio.core.contracts import Array, State, Step, VecEnv
from rlstudio.core.contracts.arrays import AnyArray
from rlstudio.core.errors import Incompatible, OtherEnvironments
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete, describe
from rlstudio.envs.params.draw import Draw
from rlstudio.envs.params.episodes import Randomised, episode_params_of, required
from rlstudio.envs.seats.player import SeatPlayer
from rlstudio.envs.seeds import episode_words, to_uniform

HALF_A_STEP = 2.0**-54
"""Between two numbers of `to_uniform`: added, none of them is 0."""


class Opponents(Protocol):
    """Who plays the other seats. Opponents are numbered; an episode keeps the one it started with."""

    def assign(self, envs: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For the episodes that start: the seat of the learner, and the number of its opponent."""
        ...

    def player(self, opponent: int) -> SeatPlayer: ...

    def record(self, opponent: int, paid: float) -> None:
        """An episode against this opponent ended, and the learner was paid so much in it."""
        ...


def refuse_seats(env: VecEnv, field: str, id: str) -> None:
    """Incompatible where nobody can be met in these environments."""
    if env.agents < 2:
        raise Incompatible(f"{field}: {id} has one agent, and nobody to play against; leave it out")
    if not isinstance(env.spaces.action, Discrete):
        raise Incompatible(
            f"{field}: opponents make one choice, but {id} takes {describe(env.spaces.action)}; leave it out"
        )


class SeatedVecEnv:
    """`num_envs` counts environments, since each has one learner."""

    agents = 1

    def __init__(self, inner: VecEnv, opponents: Opponents, seed: int) -> None:
        action = inner.spaces.action
        assert isinstance(action, Discrete), "refuse_seats comes first"
        self.inner = inner
        self.opponents: Opponents = opponents
        self.spaces = inner.spaces
        self.seats = inner.agents
        self.num_envs = inner.num_envs // inner.agents
        self.vectorization = inner.vectorization
        self.exact: str | None = inner.exact
        self.episode_params = episode_params_of(inner)
        self._choices = action.n
        self._key = int(Rng(seed).fork("seats").generator().integers(-(2**63), 2**63, dtype=np.int64))
        self._envs = np.arange(self.num_envs)
        self._observed: Array = {}
        self._episodes, self._steps, self._seat, self._opponent = np.zeros((4, self.num_envs), np.int64)
        self._out = np.zeros((self.num_envs, self.seats), bool)  # agents whose episode is over while others go on
        self._paid = np.zeros(self.num_envs)

    @property
    def restart_reasons(self) -> list[str] | None:
        return self.inner.restart_reasons

    @property
    def restarted(self) -> Sequence[int]:
        return sorted({column // self.seats for column in self.inner.restarted})

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return self.inner.describe_episode(env * self.seats, ago)

    def reset(self) -> Array:
        self._observed = self.inner.reset()
        self._episodes[:] = 0
        self._begin(self._envs)
        return rows_of(self._observed, self._columns())

    def step(self, actions: np.ndarray) -> Step:
        columns = self._columns()
        if self.episode_params is not None:
            self.episode_params.reported = np.isin(np.arange(self.inner.num_envs), columns)
        step = self.inner.step(self._joint(actions, columns))
        acted = None if step.active is None else step.active[columns]
        rewards, terminated, truncated = step.rewards[columns], step.terminated[columns], step.truncated[columns]
        successors = rows_of(step.successors, columns)
        infos = {key: numbers[columns] for key, numbers in step.infos.items()}
        self._paid += np.where(self._out[self._envs, self._seat], 0.0, rewards)
        self._out |= (step.terminated | step.truncated).reshape(self._out.shape)
        self._steps += 1
        self._observed = step.observations
        ended = np.flatnonzero(self._out.all(1))
        if len(ended):
            for env in ended.tolist():
                self.opponents.record(int(self._opponent[env]), float(self._paid[env]))
            self._episodes[ended] += 1
            self._begin(ended)
        active = np.ones(self.num_envs, bool) if acted is None else acted
        observations = rows_of(self._observed, self._columns())
        return Step(observations, successors, rewards, terminated, truncated, infos, active)

    def position(self) -> State:
        inside = self.inner.position()
        self.exact = self.inner.exact  # which the inner ones may find out there
        return {
            "kind": "seats",
            "inner": inside,
            "episodes": self._episodes.copy(),
            "steps": self._steps.copy(),
            "seat": self._seat.copy(),
            "opponent": self._opponent.copy(),
            "out": self._out.copy(),
            "paid": self._paid.copy(),
        }

    def seek(self, position: State) -> Array:
        if position.get("kind") != "seats":
            raise OtherEnvironments(f"a position of {position.get('kind')} does not fit environments with opponents")
        self._observed = self.inner.seek(position["inner"])
        self.exact = self.inner.exact
        self._episodes[:], self._steps[:] = position["episodes"], position["steps"]
        self._seat[:], self._opponent[:] = position["seat"], position["opponent"]
        self._out[:], self._paid[:] = position["out"], position["paid"]
        if self.restarted:
            again = np.array(self.restarted)
            self._episodes[again] += 1
            self._begin(again)
        return rows_of(self._observed, self._columns())

    def set_draw(self, draw: Draw) -> None:
        required(self.episode_params, "this environment")
        assert isinstance(self.inner, Randomised)
        self.inner.set_draw(draw)

    def close(self) -> None:
        self.inner.close()

    def opponents_in_play(self) -> set[int]:
        """Those of the open episodes."""
        return set(self._opponent.tolist())

    def _begin(self, envs: np.ndarray) -> None:
        self._seat[envs], self._opponent[envs] = self.opponents.assign(envs, self._episodes[envs])
        self._steps[envs], self._out[envs], self._paid[envs] = 0, False, 0.0

    def _columns(self) -> np.ndarray:
        """Of the learners, among those of the environments inside."""
        return cast("np.ndarray", self._envs * self.seats + self._seat)

    def _joint(self, actions: np.ndarray, learners: np.ndarray) -> np.ndarray:
        """The actions of all seats. Whoever has no choice, or is out, is not asked."""
        joint = np.zeros(self.inner.num_envs, actions.dtype)
        joint[learners] = actions
        asked = ~self._out.reshape(-1)
        asked[learners] = False
        if isinstance(self._observed, dict) and ACTION_MASK in self._observed:
            asked &= self._observed[ACTION_MASK].any(-1)
        columns = asked.nonzero()[0]
        uniform = self._uniform(columns)
        of_columns = self._opponent[columns // self.seats]
        for opponent in np.unique(of_columns).tolist():
            its = of_columns == opponent
            chosen = self.opponents.player(opponent).choose(rows_of(self._observed, columns[its]), uniform[its])
            joint[columns[its]] = chosen
        return joint

    def _uniform(self, columns: np.ndarray) -> np.ndarray:
        """Numbers in (0, 1), [N, A], for whoever acts in these columns now."""
        envs, seats = np.divmod(columns, self.seats)
        first = (self._steps[envs] * self.seats + seats) * self._choices
        draws = first[:, None] + np.arange(self._choices)
        places = (cast(AnyArray, numbers) for numbers in (envs[:, None], self._episodes[envs][:, None], draws))
        return cast(np.ndarray, to_uniform(episode_words(self._key, *places))) + HALF_A_STEP


def rows_of(observations: Array, rows: np.ndarray) -> Array:
    if isinstance(observations, dict):
        return {name: entry[rows] for name, entry in observations.items()}
    return cast("np.ndarray", observations[rows])
