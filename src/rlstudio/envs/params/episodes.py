"""The parameters of each environment's open episode, and those of the episodes that ended since somebody asked."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from rlstudio.core.contracts import EpisodeDraws, State
from rlstudio.core.errors import Incompatible
from rlstudio.envs.params.draw import Draw, sample


class _Ended(NamedTuple):
    """An episode that is over, and what was drawn for it."""

    column: int
    version: int
    component: int
    values: tuple[float, ...]


class EpisodeParams:
    """`values[name][e]` is what was drawn for the open episode of environment e. A Draw that is set counts from each
    environment's next episode on. In the run these environments have the numbers from `first_env` on."""

    def __init__(self, draw: Draw, seed: int, num_envs: int, first_env: int = 0) -> None:
        self.draw = self._first = draw
        self._seed = seed
        self._first_env = first_env
        self.versions = np.zeros(num_envs, np.int64)
        self.components = np.zeros(num_envs, np.int64)
        self.values = {name: np.zeros(num_envs) for name in draw.names}
        self._ended: list[_Ended] = []
        self.reported: np.ndarray | None = None  # [B] with several agents: whose episodes are reported; None: all

    def set_draw(self, draw: Draw) -> None:
        if set(draw.names) != set(self.values):
            raise Incompatible(
                f"a Draw of {', '.join(sorted(draw.names))} does not fit environments whose parameters are"
                f" {', '.join(sorted(self.values))}; env.params names all that may change"
            )
        self.draw = replace(draw, once=self._first.once)

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        """These environments start these episodes."""
        components, values = sample(self.draw, self._seed, envs + self._first_env, episodes)
        self.versions[envs] = self.draw.version
        self.components[envs] = components
        for name, drawn in values.items():
            self.values[name][envs] = drawn

    def end(self, envs: np.ndarray, columns: np.ndarray | None = None) -> None:
        """The open episodes of these environments are over. With several agents an environment stands there once for
        each whose episode it was, and `columns` are those of the agents."""
        columns = envs if columns is None else columns
        for env, column in zip(envs.tolist(), columns.tolist(), strict=True):
            if self.reported is None or self.reported[column]:
                values = tuple(float(numbers[env]) for numbers in self.values.values())
                self._ended.append(_Ended(column, int(self.versions[env]), int(self.components[env]), values))

    def follow(self, ended: np.ndarray, episodes: np.ndarray) -> None:
        """After a step: where an episode ended (a mask), the next one has begun; `episodes` counts those of all."""
        (envs,) = ended.nonzero()
        self.end(envs)
        self.begin(envs, episodes[envs])

    def of(self, env: int) -> dict[str, float]:
        """What was drawn for the open episode of one environment."""
        return {name: float(column[env]) for name, column in self.values.items()}

    def take(self, columns: Container[int] | None = None) -> EpisodeDraws:
        """Of the episodes that ended since the last call, in the order in which they ended; `columns`: of these alone,
        the others stay."""
        ended, self._ended = self._ended, []
        if columns is not None:
            self._ended = [one for one in ended if one.column not in columns]
            ended = [one for one in ended if one.column in columns]
        drawn = list(zip(*(one.values for one in ended), strict=True)) or [()] * len(self.values)
        values = {name: list(numbers) for name, numbers in zip(self.values, drawn, strict=True)}
        return EpisodeDraws([one.version for one in ended], [one.component for one in ended], values)

    def position(self) -> State:
        position: State = {
            "versions": self.versions.copy(),
            "components": self.components.copy(),
            "names": list(self.values),
            "values": np.array(list(self.values.values())),
        }
        return position if self.draw == self._first else {**position, "draw": self.draw.to_json()}

    def seek(self, position: State | None, episodes: np.ndarray) -> None:
        """To a position; a parameter that it does not have, as after a fork, is drawn for these open episodes."""
        position = position or {}
        self._ended = []
        self.draw = Draw.from_json(position["draw"]) if "draw" in position else self._first
        self.begin(np.arange(len(self.versions)), episodes)
        if position:
            self.versions[:] = position["versions"]
            self.components[:] = position["components"]
            for name, column in zip(position["names"], np.asarray(position["values"]), strict=True):
                if name in self.values:
                    self.values[name][:] = column


@runtime_checkable
class Randomised(Protocol):
    """A vector of environments that can have drawn parameters."""

    episode_params: EpisodeParams | None

    def set_draw(self, draw: Draw) -> None:
        """What the parameters of each environment's next episodes are drawn from."""
        ...


def episode_params_of(env: object) -> EpisodeParams | None:
    """None where no parameter of these environments is drawn."""
    return env.episode_params if isinstance(env, Randomised) else None


def position_of(params: EpisodeParams | None) -> State:
    """The entry of a vector's position; nothing where no parameter is drawn."""
    return {} if params is None else {"params": params.position()}


def required(params: EpisodeParams | None, env_id: str) -> EpisodeParams:
    """For `set_draw`."""
    if params is None:
        raise Incompatible(f"env.params: no parameter of {env_id} is drawn, so what they are drawn from cannot be set")
    return params
