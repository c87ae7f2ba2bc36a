"""An environment of your own. Train on it from this folder:

rlctl launch --import my_worlds --algo ppo --env Corridor-v0 env.kwargs.length=20
"""

import gymnasium as gym
import numpy as np


class Corridor(gym.Env):
    """Walk right for `length` cells; each step costs, the end pays."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, length: int = 10, render_mode: str | None = None) -> None:
        self.length, self.render_mode = length, render_mode
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(self.length // 2))
        return self._seen(), {}

    def step(self, action):
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        arrived = self.cell >= self.length
        return self._seen(), 1.0 if arrived else -0.01, arrived, False, {}

    def render(self):
        picture = np.full((32, 16 * (self.length + 1), 3), 255, np.uint8)
        picture[8:24, 16 * self.cell : 16 * (self.cell + 1)] = (200, 60, 40)
        return picture

    def _seen(self):
        return np.array([self.cell / self.length], np.float32)


gym.register("Corridor-v0", entry_point=Corridor, max_episode_steps=100)
