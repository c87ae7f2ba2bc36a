"""A walk on a line as a plain env and as VectorEnvs of every autoreset mode, in NumPy and torch, with faults."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

LIMIT = 9
OBSERVED = spaces.Box(-3.0, 3.0, (2,), np.float32)
MOVES = spaces.Discrete(3, start=-1)


def moved(x, action, age):
    """float32 throughout, so that one row and many give the same bits."""
    x = x + np.float32(0.25) * np.asarray(action, np.float32) + np.float32(0.05)
    return x, np.stack((x, np.asarray(age, np.float32) / np.float32(10)), -1), x * x, np.abs(x) >= 1.0


class Walk(gymnasium.Env):
    """`reset(options={"x": ...})` starts where a vector did."""

    observation_space, action_space = OBSERVED, MOVES

    def __init__(self, max_episode_steps=LIMIT):
        self.limit = max_episode_steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        x = (options or {}).get("x", self.np_random.uniform(-0.5, 0.5))
        self.x, self.age = np.float32(x), 0
        return np.array([self.x, 0.0], np.float32), {}

    def step(self, action):
        self.age += 1
        self.x, observed, reward, terminated = moved(self.x, action, self.age)
        info = {"distance": float(abs(self.x))} | ({"is_success": bool(self.x > 0)} if terminated else {})
        return observed, float(reward), bool(terminated), self.age >= self.limit, info


class WalkVector(VectorEnv):
    """All copies at once. `fault` breaks the contract in one of the ways that are found out."""

    def __init__(self, num_envs, mode="SAME_STEP", max_episode_steps=LIMIT, tensors=False, fault=""):
        self.num_envs, self.limit, self.tensors, self.fault = num_envs, max_episode_steps, tensors, fault
        self.metadata = {"autoreset_mode": AutoresetMode[mode]} if fault != "no mode" else {}
        self.mode = AutoresetMode[mode]
        self.single_observation_space, self.single_action_space = OBSERVED, MOVES
        self.observation_space, self.action_space = (batch_space(space, num_envs) for space in (OBSERVED, MOVES))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=None if self.fault == "seed" else seed)
        mask = (options or {}).get("reset_mask")
        if mask is None or self.fault == "resets all":
            self.x, self.age = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, np.int64)
            self.ended = np.zeros(self.num_envs, bool)
            mask = np.ones(self.num_envs, bool)
        self.begin(np.asarray(mask))
        return self.given(self.observed()), {}

    def begin(self, mask):
        self.x[mask] = self.np_random.uniform(-0.5, 0.5, mask.sum())
        self.age[mask] = 0

    def observed(self):
        return np.stack((self.x, self.age.astype(np.float32) / np.float32(10)), -1)

    def step(self, actions):
        if self.tensors:
            assert isinstance(actions, torch.Tensor)
            actions = actions.numpy()
        assert self.action_space.contains(actions)
        waits = self.mode is AutoresetMode.NEXT_STEP and self.fault != "same step"
        resets = self.ended if waits else np.zeros(self.num_envs, bool)
        self.age += 1
        self.x, observed, rewards, terminated = moved(self.x, actions, self.age)
        truncated = self.age >= self.limit
        infos = {"distance": np.abs(self.x), "is_success": self.x > 0, "_is_success": terminated.copy()}
        if resets.any():
            self.begin(resets)
            observed = self.observed()
            rewards, terminated, truncated = rewards * ~resets, terminated & ~resets, truncated & ~resets
        ended = self.ended = terminated | truncated
        if self.mode is AutoresetMode.SAME_STEP or self.fault == "same step":
            observed, infos = self.reset_at_once(ended, observed, infos)
        return self.spoilt(observed, rewards, terminated, truncated, infos)

    def reset_at_once(self, ended, observed, infos):
        if ended.any():
            first = dict(infos)
            self.begin(ended)
            if self.fault != "lost":
                first["final_obs"] = self.given(self.observed() if self.fault == "reset as final" else observed)
            first["final_info"] = infos
            observed, infos = np.where(ended[:, None], self.observed(), observed), first
        return observed, infos

    def spoilt(self, observed, rewards, terminated, truncated, infos):
        match self.fault:
            case "shape":
                observed = observed[:, :1]
            case "nan reward":
                rewards = np.where(self.age > 3, np.nan, rewards)
            case "raise":
                raise ZeroDivisionError("no way")
            case "flags":
                terminated = terminated[0]
        return (*map(self.given, (observed, rewards, terminated, truncated)), infos)

    def given(self, array):
        return torch.from_numpy(np.asarray(array).copy()) if self.tensors else array


def walks(num_envs, mode="NEXT_STEP", max_episode_steps=LIMIT):
    """Gymnasium's own vector of plain ones."""
    make = [lambda: Walk(max_episode_steps)] * num_envs
    return SyncVectorEnv(make, autoreset_mode=AutoresetMode[mode])


VECTOR, BOTH, SYNC = "toys/WalkVector-v0", "toys/WalkBoth-v0", "toys/WalkSync-v0"


def register_vectors() -> None:
    if VECTOR not in gymnasium.registry:
        gymnasium.register(VECTOR, vector_entry_point=WalkVector)
        gymnasium.register(SYNC, vector_entry_point=walks)
        gymnasium.register(BOTH, Walk, vector_entry_point=WalkVector)
