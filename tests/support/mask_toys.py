"""Envs with forbidden choices and with pictures, for tests. Workers import them by name."""

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 8


class Ranked(gymnasium.Env):
    """Shows a number per choice; the best allowed one earns 1. A forbidden choice is an error, as in a board game.

    `where` says how the mask is told: in the observation, in `info`, or by the method; `parts` makes the action a
    MultiDiscrete. The last observation allows nothing. `empty` forbids everything at that step, `extra` tells too many.
    """

    def __init__(self, where: str = "observation", parts: int = 0, empty: int = -1, extra: int = 0) -> None:
        self.where, self.parts, self.empty, self.extra = where, parts, empty, extra
        n = 4 * max(parts, 1)
        line = spaces.Box(-1, 1, (n,), np.float32)
        mask = spaces.MultiBinary(n + extra)
        self.observation_space = spaces.Dict({"action_mask": mask, "numbers": line}) if where == "observation" else line
        self.action_space = spaces.MultiDiscrete([4] * parts) if parts else spaces.Discrete(4)

    def _shown(self):
        shape = (max(self.parts, 1), 4)
        self.numbers = self.np_random.uniform(-1, 1, shape).astype(np.float32)
        self.mask = self.np_random.random(shape) < 0.5
        self.mask[np.arange(len(self.mask)), self.np_random.integers(0, 4, len(self.mask))] = True
        if self.steps in (LENGTH, self.empty):
            self.mask[:] = False
        mask = np.concatenate([self.mask.ravel(), np.ones(self.extra, bool)]).astype(np.int8)
        numbers = self.numbers.ravel()
        observation = {"action_mask": mask, "numbers": numbers} if self.where == "observation" else numbers
        return observation, {"action_mask": mask} if self.where == "info" else {}

    def action_masks(self):
        return [row.astype(np.int8) for row in self.mask] if self.parts else self.mask[0]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._shown()

    def step(self, action):
        chosen = np.atleast_1d(action)
        rows = np.arange(len(self.mask))
        if not self.mask[rows, chosen].all():
            raise ValueError(f"{action} is forbidden")
        best = np.where(self.mask, self.numbers, -2).argmax(-1)
        self.steps += 1
        observation, info = self._shown()
        return observation, float((chosen == best).mean()), self.steps == LENGTH, False, info


class Pictures(gymnasium.Env):
    """Which half of the camera's picture is bright, and which sign the number has: four answers, two entries."""

    def __init__(self) -> None:
        camera, small = spaces.Box(0, 255, (40, 40, 1), np.uint8), spaces.Box(0, 255, (4, 4, 1), np.uint8)
        number = spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = spaces.Dict({"camera": camera, "number": number, "thumb": small})
        self.action_space = spaces.Discrete(4)

    def _shown(self):
        self.side, self.sign = self.np_random.integers(0, 2, 2)
        camera, thumb = np.zeros((40, 40, 1), np.uint8), np.zeros((4, 4, 1), np.uint8)
        camera[:, 20 * self.side : 20 * self.side + 20] = 255
        return {"camera": camera, "number": np.array([2 * self.sign - 1], np.float32), "thumb": thumb}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._shown(), {}

    def step(self, action):
        reward = float(action == self.side + 2 * self.sign)
        self.steps += 1
        return self._shown(), reward, self.steps == LENGTH, False, {}


def register_mask_toys() -> None:
    for name in ("Ranked", "Pictures"):
        if f"toys/{name}-v0" not in gymnasium.registry:
            gymnasium.register(f"toys/{name}-v0", f"support.mask_toys:{name}")
