"""Small Gymnasium envs for tests: every kind of space, every kind of misbehaviour. Workers import them by name."""

import os
import random
import signal
import sys
import time
from pathlib import Path
from threading import Lock

import gymnasium
import numpy as np
from gymnasium import spaces

import rlstudio


class Choices(gymnasium.Env):
    """MultiDiscrete in and out; ends at random, so that episodes have different lengths."""

    def __init__(self) -> None:
        self.observation_space = spaces.MultiDiscrete([5, 3])
        self.action_space = spaces.MultiDiscrete([3, 2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.integers(0, [5, 3]), {}

    def step(self, action):
        assert action.shape == (3,)
        ended = self.np_random.random() < 0.1
        return self.np_random.integers(0, [5, 3]), float(action.sum()), bool(ended), False, {"sum": action.sum()}


class Views(gymnasium.Env):
    """A Dict of an image, float64 numbers and a choice, moved by a Box; its last observation is marked with 255."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "image": spaces.Box(0, 255, (6, 5, 3), np.uint8),
                "place": spaces.Box(-np.inf, np.inf, (2,), np.float64),
                "room": spaces.Discrete(4),
            }
        )
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def _shown(self, mark: int):
        image = np.full((6, 5, 3), mark, np.uint8)
        return {"image": image, "place": self.place.copy(), "room": int(self.steps % 4)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.normal(size=2)
        self.steps = 0
        self.length = int(self.np_random.integers(3, 9))
        return self._shown(0), {}

    def step(self, action):
        self.place = self.place + action
        action *= 0  # rude, and must not reach anybody else
        self.steps += 1
        ended = self.steps >= self.length
        info = {"odd": object(), "norm": np.linalg.norm(self.place)} if ended else {}
        return self._shown(255 if ended else self.steps), -float(np.abs(self.place).sum()), False, ended, info


class Offset(gymnasium.Env):
    """Choices that count from elsewhere: shows the action it got, and ends after 3 steps."""

    def __init__(self) -> None:
        self.observation_space = spaces.Discrete(4, start=-2)
        self.action_space = spaces.Discrete(4, start=7)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.int64(-2), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        return np.int64(action - 9), float(action), self.steps == 3, False, {}


class Leftover(gymnasium.Env):
    """A used object differs from a fresh one: its episode counter leaks into what it shows."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.played = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.played += 1
        return self._shown(), {}

    def _shown(self):
        return np.array([self.played, self.np_random.random()], np.float32)

    def step(self, action):
        self.steps += 1
        return self._shown(), 1.0, self.steps >= 5 + action, False, {}


class Restless(Leftover):
    """Never repeats itself, whatever the seed."""

    count = 0

    def _shown(self):
        Restless.count += 1
        return np.array([Restless.count, os.getpid() % 1000], np.float32)


class Entropy(Leftover):
    """Takes `what` from the operating system, from step `at` on; its episodes have 9 steps."""

    def __init__(self, what: str, at: int = 2) -> None:
        super().__init__()
        self.what, self.at = what, at

    def _shown(self):
        return np.array([self.np_random.random(), self._drawn("observation")], np.float32)

    def step(self, action):
        self.steps += 1
        return self._shown(), self._drawn("reward"), self.steps >= 9 or self._drawn("end") > 0.5, False, {}

    def _drawn(self, what: str) -> float:
        is_drawn = what == self.what and self.steps >= self.at
        return int.from_bytes(os.urandom(4)) / 2**32 if is_drawn else 0.0


class Shared(Leftover):
    """Draws from the generators of the process, as an env should not. While `is_full` no other can be opened."""

    is_full = False

    def __init__(self) -> None:
        super().__init__()
        if Shared.is_full:
            raise OSError("address already in use")

    def _shown(self):
        return np.array([random.random(), np.random.random()], np.float32)


ODD = {  # what an info may hold instead of a number
    "text": "yes",
    "none": None,
    "list": [1.0],
    "row": np.ones(1),
    "complex": np.complex64(1),
}


class Errand(gymnasium.Env):
    """Ends after 3 to 6 steps, shows how many it took and how often action 1 was taken. Its info gives the latter at
    each step (`ones`), and only at the end whether it was more often than not (`is_success`); with `odd` no number."""

    def __init__(self, odd: str | None = None) -> None:
        self.observation_space = spaces.Box(0, 6, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.odd = odd

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.ones = 0, np.array(0)
        self.length = int(self.np_random.integers(3, 7))
        return self._shown(), {"ones": -1}

    def _shown(self):
        return np.array([self.steps, self.ones], np.float32)

    def step(self, action):
        self.steps += 1
        self.ones = self.ones + int(action)
        info, ended = {"ones": np.asarray(self.ones)}, self.steps >= self.length
        if ended:
            info["is_success"] = bool(2 * self.ones > self.steps) if self.odd is None else ODD[self.odd]
        return self._shown(), 1.0, ended, False, info


def _raise():
    raise ZeroDivisionError("the env\nis broken")


def _spin():
    while True:
        pass


DEEDS = {
    "raise": _raise,
    "exit": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(4),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segv": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda: time.sleep(1000),
    "fork": os.fork,
    "spin": _spin,
}
NAN = float("nan")
RESULTS = {  # what to hand over instead of (observation, reward, terminated)
    "nan": lambda shown: (shown * NAN, 1.0, False),
    "inf reward": lambda shown: (shown, float("inf"), False),
    "nan reward": lambda shown: (shown, NAN, False),
    "huge reward": lambda shown: (shown, 1e39, False),
    "none reward": lambda shown: (shown, None, False),
    "shape": lambda shown: (shown[:2], 1.0, False),
    "scalar": lambda shown: (0.5, 1.0, False),
    "text": lambda shown: ("hello", 1.0, False),
    "dtype": lambda shown: (shown.astype(complex), 1.0, False),
    "text reward": lambda shown: (shown, "1.0", False),
    "text terminated": lambda shown: (shown, 1.0, "false"),
    "fork": lambda shown: (shown, 1.0, False),
    "far": lambda shown: (shown * 0 + 3e38, 1.0, False),
    "last nan": lambda shown: (shown * NAN, 1.0, True),
}


class Faulty(gymnasium.Env):
    """Counts steps; in `where` (at step `at`) does what `fault` says. With `once`, a file, only the first time."""

    def __init__(self, fault: str = "none", where: str = "step", at: int = 3, once: str | None = None) -> None:
        self.observation_space = spaces.Box(-1e6, 1e6, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.fault, self.where, self.at, self.once = fault, where, at, once
        self.steps = 0
        self._maybe("init")

    def _maybe(self, where: str) -> bool:
        """Whether this is the place; a deed is done at once."""
        if self.fault == "none" or where != self.where or self.steps != (self.at if where == "step" else 0):
            return False
        if self.once is not None:
            if Path(self.once).exists():
                return False
            Path(self.once).touch()
        if self.fault in DEEDS:
            DEEDS[self.fault]()
        return True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.start = self.np_random.random()
        self._maybe("reset")
        return self._shown(), {}

    def _shown(self):
        return np.array([self.start, self.steps, 0], np.float32)

    def step(self, action):
        self.steps += 1
        shown, reward, ended = self._shown(), 1.0, self.steps > max(7, self.at)
        if self._maybe("step"):
            shown, reward, ended = RESULTS[self.fault](shown)
        return shown, reward, ended, False, {"lock": Lock()}

    def close(self):
        self.steps = 0
        self._maybe("close")


class OnlyHere(Faulty):
    """Can be made in the process only whose number the variable has, if it is set."""

    def __init__(self) -> None:
        super().__init__()
        if os.environ.get("ONLY_PROCESS") not in (None, str(os.getpid())):
            raise OSError("no display in this process")


class Logging(gymnasium.Env):
    """Logs how old its episode is, at every step."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        rlstudio.log("age", self.steps)
        return np.zeros(1, np.float32), float(action), self.steps == 7, False, {}


TOYS = {
    "Choices": 50,
    "Views": None,
    "Offset": None,
    "Leftover": None,
    "Restless": None,
    "Entropy": None,
    "Shared": None,
    "Errand": None,
    "Faulty": None,
    "Logging": None,
    "OnlyHere": None,
}


def register_toys() -> None:
    for name, limit in TOYS.items():
        if f"toys/{name}-v0" not in gymnasium.registry:
            gymnasium.register(f"toys/{name}-v0", f"support.env_toys:{name}", max_episode_steps=limit)
