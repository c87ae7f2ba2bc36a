"""One of our own worlds as a plain `gymnasium.Env`: for wrappers, for worker processes and for pictures."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium
import numpy as np
from gymnasium import spaces as gym_spaces

from rlstudio.core.contracts import Array, World
from rlstudio.core.errors import UserError
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from rlstudio.envs.worlds.kernel import NUMPY, empty_rows, write

CELL = 24  # pixels per cell
WALKER, FLOOR, LINE = (220, 90, 60), (245, 245, 240), (200, 200, 195)


class WorldEnv(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, world: World[np.ndarray], params: Mapping[str, float], render_mode: str | None = None) -> None:
        if world.agents > 1:
            raise UserError(
                f"{world.id} has {world.agents} agents, which no Gymnasium env has; use env.vectorization=native"
                " without env.wrappers"
            )
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"{world.id} renders as rgb_array only, not {render_mode!r}")
        self.world: World[np.ndarray] = world
        self.params: dict[str, float] = {**world.params, **params}
        self.render_mode = render_mode
        self.observation_space = _gymnasium_space(world.spaces.observation)
        self.action_space = _gymnasium_space(world.spaces.action)
        self.state = self.world.initial(np.zeros(world.noise_size), self.params, NUMPY)

    def set_params(self, **values: float) -> None:
        """Of the episodes from the next reset on."""
        self.params = {**self.params, **values}

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Array, dict[str, object]]:
        super().reset(seed=seed)
        self.state = self.world.initial(self.np_random.random(self.world.noise_size), self.params, NUMPY)
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[Array, float, bool, bool, dict[str, object]]:
        self.state, reward, terminated, _ = self.world.dynamics(self.state, np.asarray(action), self.params, NUMPY)
        return self._observation(), float(reward), bool(terminated), False, {}

    def _observation(self) -> Array:
        row = empty_rows(self.world.spaces.observation, ())
        write(row, ..., self.world.observe(self.state, self.params, NUMPY))
        return row

    def render(self) -> np.ndarray:
        """The observation as a board of cells, darker where it is larger; square worlds are drawn square."""
        observation = self._observation()
        parts = observation.values() if isinstance(observation, dict) else [observation]
        values = np.concatenate([np.ravel(part) for part in parts])
        side = round(len(values) ** 0.5)
        board = values.reshape(side, side) if side * side == len(values) and side > 2 else values[None]
        shade = np.clip(board, 0, 1)[..., None]
        colours = np.array(FLOOR) * (1 - shade) + np.array(WALKER) * shade
        picture: np.ndarray = colours.repeat(CELL, 0).repeat(CELL, 1).astype(np.uint8)
        picture[::CELL] = LINE
        picture[:, ::CELL] = LINE
        return picture


def _gymnasium_space(space: Space) -> gym_spaces.Space[object]:
    match space:
        case Box():
            low, high = space.bounds()
            return gym_spaces.Box(low, high, dtype=np.dtype(space.dtype))
        case Discrete():
            return gym_spaces.Discrete(space.n)
        case MultiDiscrete():
            return gym_spaces.MultiDiscrete(list(space.nvec))
        case Dict():
            return gym_spaces.Dict({name: _gymnasium_space(entry) for name, entry in space.items()})
