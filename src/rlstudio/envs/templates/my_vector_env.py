"""A VectorEnv of your own: a boat that is held at a buoy, all copies in one call.

rlctl check my_vector_env.py:MyVectorEnv
rlctl launch --algo ppo --env my_vector_env.py:MyVectorEnv env.num_envs=64
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class MyVectorEnv(VectorEnv):
    # Where an episode's last observation is. SAME_STEP: an ended copy is reset in the same step, and the last
    # observation is in infos["final_obs"].
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int, max_episode_steps: int = 100, wind: float = 0.1) -> None:
        """`num_envs` is given by RLStudio, `max_episode_steps` by env.max_episode_steps, the rest by env.kwargs."""
        self.num_envs, self.max_episode_steps, self.wind = num_envs, max_episode_steps, wind
        # What one copy shows and takes, and the same for all of them.
        self.single_observation_space = spaces.Box(-5.0, 5.0, (2,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.x, self.v, self.age = np.zeros(num_envs), np.zeros(num_envs), np.zeros(num_envs, int)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)  # all that is random must come from self.np_random
        self.begin(np.ones(self.num_envs, bool))
        return self.observed(), {}

    def begin(self, copies: np.ndarray) -> None:
        self.x[copies] = self.np_random.uniform(-2.0, 2.0, copies.sum())
        self.v[copies] = 0.0
        self.age[copies] = 0

    def observed(self) -> np.ndarray:
        return np.stack((self.x, self.v), -1).astype(np.float32)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self.v = np.clip(self.v + 0.1 * (actions[:, 0] + self.wind - 0.5 * self.v), -5.0, 5.0)
        self.x = np.clip(self.x + 0.1 * self.v, -5.0, 5.0)
        self.age += 1
        terminated = abs(self.x) >= 5.0  # the world ends the episode: nothing more is to be gained
        truncated = self.age >= self.max_episode_steps  # only time is up: learning goes on as if there were more
        ended = terminated | truncated
        rewards, observations = -abs(self.x), self.observed()
        infos: dict[str, Any] = {"distance": abs(self.x)}
        if ended.any():
            infos |= {"final_obs": observations, "final_info": {"distance": infos["distance"]}}
            self.begin(ended)
            observations = self.observed()  # a new array: the one in final_obs stays as it is
        return observations, rewards, terminated, truncated, infos
