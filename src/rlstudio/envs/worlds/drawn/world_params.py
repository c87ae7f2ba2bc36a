"""The parameters of a World that change from episode to episode: arrays that its equations read, written at resets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstudio.core.contracts import World
from rlstudio.core.errors import ConfigError, suggest
from rlstudio.core.spaces import Spaces
from rlstudio.envs.params.draw import draw_from
from rlstudio.envs.params.episodes import EpisodeParams
from rlstudio.envs.params.observed import observed_space
from rlstudio.envs.params.parameters import Parameter
from rlstudio.envs.worlds.kernel import Values


class WorldParams:
    """`p` is what the equations read: an array [num_envs] for each parameter that is drawn. `observed` are the columns
    [num_envs] that the agent sees, in the order of `env.params`."""

    def __init__(
        self,
        world: World[np.ndarray],
        parameters: Sequence[Parameter],
        seed: int,
        num_envs: int,
        first_env: int = 0,
    ) -> None:
        check_names(world, parameters)
        draw = draw_from(parameters)
        self.episodes = None if draw is None else EpisodeParams(draw, seed, num_envs, first_env)
        drawn = {} if self.episodes is None else self.episodes.values
        places = {each.name: each.address for each in parameters}
        self._written = {name: np.full(num_envs, float(world.params[places[name]])) for name in drawn}
        self.p: Values = {**world.params, **{places[name]: column for name, column in self._written.items()}}
        self._factors = {each.name: world.params[each.address] if each.scale else 1.0 for each in parameters}
        self.observed = [
            drawn.get(each.name, np.full(num_envs, 1.0 if each.scale else world.params[each.address]))
            for each in parameters
            if each.observed
        ]

    def spaces(self, world: World[np.ndarray]) -> Spaces:
        if not self.observed:
            return world.spaces
        return Spaces(observed_space(world.spaces.observation, len(self.observed), world.id), world.spaces.action)

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        """These environments start these episodes."""
        if self.episodes is not None:
            self.episodes.begin(envs, episodes)
            self._write(envs)

    def write_all(self) -> None:
        """What the open episodes have, after a seek."""
        self._write(slice(None))

    def _write(self, envs: np.ndarray | slice) -> None:
        if self.episodes is not None:
            for name, column in self._written.items():
                column[envs] = self.episodes.values[name][envs] * self._factors[name]


def check_names(world: World[np.ndarray], parameters: Sequence[Parameter]) -> None:
    """Each names another parameter of the World, or ConfigError."""
    used: dict[str, str] = {}
    for each in parameters:
        if each.kind or each.address not in world.params:
            known = f"known: {', '.join(world.params)}" if world.params else "it has none, leave env.params out"
            near = suggest(each.address, world.params)
            raise ConfigError(f"env.params: {world.id} has no parameter {each.address!r}{near or ';'} {known}")
        if each.address in used:
            raise ConfigError(
                f"env.params: {each.name} and {used[each.address]} both set {each.address}; leave one out"
            )
        used[each.address] = each.name
