"""One of our own worlds as a plain `gymnasium.Env`: for wrappers, for worker processes and for pictures."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gym_spaces

from rlstudio.core.errors import UserError
from rlstudio.core.spaces import Box, Discrete, Space
from rlstudio.envs.worlds.native import World

CELL = 24  # pixels per cell
WALKER, FLOOR, LINE = (220, 90, 60), (245, 245, 240), (200, 200, 195)


class WorldEnv(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, world: World, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"{world.id} renders as rgb_array only, not {render_mode!r}")
        self.world = world
        self.render_mode = render_mode
        self.observation_space = _gymnasium_space(world.spaces.observation)
        self.action_space = _gymnasium_space(world.spaces.action)
        self.state = world.initial(np.zeros(world.noise_size))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.world.initial(self.np_random.random(self.world.noise_size))
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.state, reward, terminated = self.world.dynamics(self.state, np.asarray(action))
        return self._observation(), float(reward), bool(terminated), False, {}

    def _observation(self) -> np.ndarray:
        return np.asarray(self.world.observe(self.state), np.float32)

    def render(self) -> np.ndarray:
        """The observation as a board of cells, darker where it is larger; square worlds are drawn square."""
        values = self._observation()
        side = round(len(values) ** 0.5)
        board = values.reshape(side, side) if side * side == len(values) and side > 2 else values[None]
        shade = np.clip(board, 0, 1)[..., None]
        colours = np.array(FLOOR) * (1 - shade) + np.array(WALKER) * shade
        picture: np.ndarray = colours.repeat(CELL, 0).repeat(CELL, 1).astype(np.uint8)
        picture[::CELL] = LINE
        picture[:, ::CELL] = LINE
        return picture


def _gymnasium_space(space: Space) -> gym_spaces.Space:
    match space:
        case Box():
            low, high = space.bounds()
            return gym_spaces.Box(low, high, dtype=np.float32)
        case Discrete():
            return gym_spaces.Discrete(space.n)
    raise TypeError(f"native worlds have no {space}")
