"""Environments that are good at first: one breaks late in an episode, one on its third, one when its object is old."""

from __future__ import annotations

import gymnasium
import numpy as np

LIMIT = 300


class Wearing(gymnasium.Env):
    """A Dict observation; episodes of `length` steps. `breaks` says how: `late` raises at step 250 of an episode,
    `third` in the third episode of an object, `old` gives NaN after `life` steps of an object, `never` does not."""

    def __init__(self, breaks: str = "never", length: int = LIMIT, life: int = 500) -> None:
        box = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"state": box, "goal": gymnasium.spaces.Discrete(3)})
        self.action_space = gymnasium.spaces.Discrete(2)
        self.breaks, self.length, self.limit = breaks, length, life
        self.life = self.episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.episodes = 0, self.episodes + 1
        self.start = float(self.np_random.random())
        return self._observation(), {}

    def _observation(self):
        first = np.nan if self.breaks == "old" and self.life > self.limit else self.start
        return {"state": np.array([first, self.steps / 100], np.float32), "goal": 1}

    def step(self, action):
        self.steps, self.life = self.steps + 1, self.life + 1
        if self.breaks == "late" and self.steps >= 250:
            raise IndexError("list index out of range")
        if self.breaks == "third" and self.episodes >= 3 and self.steps >= 5:
            raise RuntimeError("no third episode")
        observation = self._observation()
        return observation, 1.0 - abs(float(observation["state"][0])), self.steps >= self.length, False, {}


def register_wearing() -> None:
    if "toys/Wearing-v0" not in gymnasium.registry:
        gymnasium.register("toys/Wearing-v0", "support.wearing_envs:Wearing")
