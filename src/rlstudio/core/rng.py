"""Addressed randomness: every number is a pure function of (seed, path, counter).

There is no generator state to save, no dependence on the order in which parts ask, and no global generator. A part
receives its own `Rng`, forks it by name, and reads a stream at a counter it owns (its rollout number, its update
number). Philox is counter-based, so opening a stream far along costs the same as opening the first.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256

import numpy as np
from numpy.random.bit_generator import ISeedSequence


class _Key(ISeedSequence):
    """A key for Philox. Given as `key=`, it would come after a seed from the operating system that nobody uses, which
    takes twice as long as all the rest."""

    def __init__(self, key: np.ndarray) -> None:
        self.key = key

    def generate_state(self, n_words: int, dtype: object = np.uint32) -> np.ndarray:
        return self.key


class Rng:
    """A place in the tree of streams. Two places with different paths never share numbers."""

    __slots__ = ("_children", "_key", "path", "seed")

    def __init__(self, seed: int, path: str = "") -> None:
        self.seed = seed
        self.path = path
        digest = sha256(f"rlstudio:{seed}:{path}".encode()).digest()
        self._key = _Key(np.frombuffer(digest[:16], np.uint64))
        self._children: dict[str, Rng] = {}

    def fork(self, name: str | int) -> Rng:
        """The child stream of that name; the same name gives the same child."""
        child = self._children.get(str(name))
        if child is None:
            child = self._children[str(name)] = Rng(self.seed, f"{self.path}/{name}")
        return child

    def at(self, name: str, counter: int) -> np.random.Generator:
        """The numbers of child `name` at `counter`, as a fresh NumPy generator; the next counter never overlaps it."""
        return self.fork(name).generator(counter)

    def generator(self, counter: int = 0) -> np.random.Generator:
        """This place's numbers at `counter`: words 0 and 1 of Philox's counter count draws, word 2 is the address."""
        philox = np.random.Philox(self._key, counter=[0, 0, counter, 0])  # type: ignore[arg-type]
        return np.random.Generator(philox)

    def __repr__(self) -> str:
        return f"Rng(seed={self.seed}, path={self.path!r})"


@dataclass(frozen=True)
class SeedReport:
    """What `seed_all` set, and fingerprints of the states it left behind."""

    seed: int
    deterministic: bool
    python: str
    numpy: str
    torch: str | None
    envs: str | None
    """Of the seeds of each environment's first episode."""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def seed_all(seed: int, deterministic: bool = False, env_seeds: Sequence[int] | None = None) -> SeedReport:
    """Seed the global generators of Python, NumPy and (if loaded) torch, for third-party code that reads them.

    Every session and every worker of environments begins with it (decision 0008); RLStudio itself draws from `Rng`.
    Nothing is drawn here, so the states are exactly those of the seed. `env_seeds` are only reported: environments are
    seeded by whoever makes them.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be between 0 and {2**32 - 1}, got {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch = sys.modules.get("torch")
    torch_state = None
    if torch is not None:
        torch.manual_seed(seed)
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
        torch_state = sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()
    numpy_state = np.random.get_state()[1].tobytes()  # type: ignore[index]
    return SeedReport(
        seed=seed,
        deterministic=deterministic,
        python=sha256(repr(random.getstate()).encode()).hexdigest(),
        numpy=sha256(numpy_state).hexdigest(),
        torch=torch_state,
        envs=None if env_seeds is None else sha256(repr([int(one) for one in env_seeds]).encode()).hexdigest(),
    )


@contextmanager
def kept_generators() -> Iterator[None]:
    """The global generators are as before when this ends, whatever was drawn from them in between."""
    python, numpy, torch = random.getstate(), np.random.get_state(), sys.modules.get("torch")
    torch_state = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.set_rng_state(torch_state)
