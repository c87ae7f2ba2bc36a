"""Acting: agents, whoever plays, and exploration on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rlstudio.core.contracts.basics import Array, Carried, Stateful

if TYPE_CHECKING:
    import numpy as np

    from rlstudio.core.spaces import Spaces


class Acted(NamedTuple):
    """What an agent did for a row of environments."""

    actions: np.ndarray  # for the environments
    columns: dict[str, np.ndarray]  # for learning: `actions`, if the chosen ones differ; no other column is kept
    carry: Carried | None


class Player(Protocol):
    """Whatever can play episodes: an agent, or something that acts through one."""

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted: ...


class NoiseBlock(Protocol):
    """Noise of successive steps: an array [steps, num_envs, ...], or what gives the noise of a step when asked."""

    def __getitem__(self, step: int, /) -> np.ndarray: ...


class Agent(Player, Protocol):
    """Acts with its Models, pure: the same observations, carry and noise give the same actions. Without noise it is
    greedy."""

    spaces: Spaces
    acting: str  # which kernel acts ("numpy" or "torch"); part of the recorded topology
    remembers: bool  # whether it has a carry

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> NoiseBlock:
        """Noise for a whole rollout, drawn at once: [steps, num_envs, ...]."""
        ...


class Place(NamedTuple):
    """Which environments act, and at which step of the whole run: a worker or a rank acts in a part of the
    environments. Steps are counted as if all parts were equally far, so that no part has to ask the others."""

    env_steps: int  # steps of all environments once this one is taken
    envs: np.ndarray  # numbers of the environments that act here
    num_envs: int  # of the run


class Explore(Stateful, Protocol):
    """Exploration on top of an agent's actions. It belongs to the collector, so evaluation needs no flag."""

    remembers: bool  # whether something travels from step to step, to be forgotten when an episode ends

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray: ...

    def __call__(self, actions: np.ndarray, noise: np.ndarray, observations: Array, place: Place) -> np.ndarray: ...

    def progress(self, fraction: float) -> None:
        """Called with the share of the run that is done, for schedules."""
        ...

    def forget(self, envs: np.ndarray) -> None:
        """The episodes of these environments ended. The numbers count the environments that act here."""
        ...
