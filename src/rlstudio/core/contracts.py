"""The contracts between the rooms, as Protocols. Those of environments, Models and trainers have contract
suites over all that the catalogs know (`tests/contracts`), the others tests beside what implements them.

Array kinds: environments and the acting path on a CPU speak NumPy, learning speaks torch. A `State` is what a
checkpoint can hold: nested dicts and lists of tensors, NumPy arrays, `Segment`s and plain JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from rlstudio.core.model.protocol import ForPlanning as ForPlanning  # noqa: PLC0414 - offered here too
from rlstudio.core.model.protocol import Model as Model  # noqa: PLC0414
from rlstudio.core.run_state import Reason, RunState

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from rlstudio.core.batch import Batch
    from rlstudio.core.rng import Rng
    from rlstudio.core.spaces import Spaces

    Array = np.ndarray | dict[str, np.ndarray]
else:
    Array = Any  # commands that only look at runs read this module too, and need no NumPy
State = dict[str, Any]
Metrics = dict[str, "Tensor"]


@dataclass(frozen=True)
class Segment:
    """A block of rows that never changes once it has its name; a checkpoint writes it once and refers to it after."""

    name: str
    columns: Callable[[], dict[str, np.ndarray]]


@runtime_checkable
class Stateful(Protocol):
    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


class Step(NamedTuple):
    """One step of all environments, in the environment's own arrays, valid until the next step.

    `observations` is what to act on next (already reset where an episode ended); `successors` is the true next
    observation of the transition, never a reset one. Where no episode ended the two hold equal rows.
    """

    observations: Any
    successors: Any
    rewards: Any
    terminated: Any
    truncated: Any
    infos: dict[int, dict[str, Any]]  # env index -> its info, only for envs that have one worth keeping


class VecEnv(Protocol):
    """`num_envs` copies of one world. Every episode is seeded by (seed, env, episode); autoreset is hidden."""

    spaces: Spaces
    num_envs: int
    exact: str | None  # None: `seek` restores bit for bit. Otherwise the reason why it cannot be promised.

    def reset(self) -> Array:
        """Every environment at the start of its episode 0, whatever it did before."""
        ...

    def step(self, actions: np.ndarray) -> Step: ...

    def position(self) -> State: ...

    @property
    def restarted(self) -> Sequence[int]:
        """Environments that the last `seek` put at an episode's start instead of into its middle."""
        ...

    def seek(self, position: State) -> Array:
        """Go to a position (perhaps of another process) and return the observations to act on there."""
        ...

    def close(self) -> None: ...


class Acted(NamedTuple):
    actions: Any
    columns: dict[str, Any]
    carry: Any


class Player(Protocol):
    """Whatever can play episodes: an agent, or what acts by one."""

    def step(self, observations: Array, carry: Any = None, noise: np.ndarray | None = None) -> Acted: ...


class Agent(Player, Protocol):
    """Acts with its Models, pure: the same observations, carry and noise give the same actions. No noise: greedy."""

    acting: str  # which kernel acts ("numpy" or "torch"); part of the recorded topology
    remembers: bool  # whether it has a carry: a dict of arrays with a row per env, zero where an episode starts

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        """Noise for a whole rollout, drawn at once: [steps, num_envs, ...]."""
        ...


class Explore(Protocol):
    """Exploration on top of an agent's actions; owned by the Collector, so evaluation needs no flag."""

    remembers: bool  # whether something travels from step to step, to be forgotten when an episode ends

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> Any: ...

    def __call__(self, actions: np.ndarray, noise: Any, observations: Array) -> np.ndarray: ...

    def forget(self, envs: np.ndarray) -> None:
        """The episodes of these environments ended."""
        ...

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


class DataSource(Protocol):
    def next(self) -> Batch: ...

    def feedback(self, rows: Any, values: Any) -> None: ...


class Runtime(Protocol):
    """Where experience comes from and gradients meet."""

    spaces: Spaces
    num_envs: int

    def collector(self, agent: Agent, rng: Rng, explore: Explore | None = None) -> Any: ...

    def reduce(self, flat_grad: Tensor) -> None: ...


class Outcome(NamedTuple):
    """Where one step of a model leads."""

    states: Any  # [P, E, K, S]
    rewards: Any  # [P, E, K]
    continues: Any  # [P, E, K]: 1 where the episode goes on, 0 where it ends, between where the model is not sure


class Dynamics(Protocol):
    """A model of the world to plan in: analytic, learned or an ensemble. Pure.

    Dims: P particles of an uncertain model (1 of a certain one), E environments, K candidates.
    """

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Lowest and highest reward of a step, where known."""
        ...

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        """observations [E, O] -> states [P, E, K, S], the same for each candidate."""
        ...

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        """actions [E, K, ...]: choices from 0, or numbers in [-1, 1] that fill the bounds."""
        ...

    def observe(self, states: Tensor) -> Tensor:
        """What an agent would see [P, E, K, O], for its value and policy."""
        ...


@runtime_checkable
class Rolling(Protocol):
    """A Dynamics that knows a quicker way through a whole sequence than step by step."""

    def rollout(self, states: Tensor, actions: Tensor) -> Outcome:
        """actions [E, K, H, ...] -> the last states, and the rewards and continues of each step, [H, P, E, K]; None for
        the continues of a world without ends."""
        ...


class Planned(NamedTuple):
    """First actions [E, ...] (numbers in [-1, 1], or choices), what the next plan starts from, how this one went."""

    actions: Tensor
    carry: dict[str, Tensor]  # a row per environment, zero where an episode starts
    metrics: Metrics


class PlanNoise(Protocol):
    """The numbers that a planner wants for one plan of each environment: [E, ...]."""

    def __call__(self, generator: np.random.Generator, envs: int, device: str = "cpu") -> Tensor:
        """Each device has numbers of its own."""
        ...

    def at_ages(self, ages: np.ndarray) -> Tensor:
        """A function of how many steps each episode is old, for an agent that gets no noise from outside."""
        ...


class Planner(Protocol):
    """Searches action sequences against a score, batched over environments and candidates. Pure."""

    @property
    def noise(self) -> PlanNoise: ...

    def plan(self, observations: Tensor, score: Any, carry: dict[str, Tensor] | None, noise: Tensor) -> Planned:
        """observations [E, O], and noise as `noise` draws it; without a carry as with an empty one."""
        ...


class Trainer(Protocol):
    """One algorithm: one learning step. No schedule, no logging, no files."""

    agent: Agent
    source: DataSource

    def train_step(self) -> Metrics: ...

    def eval_step(self) -> Metrics: ...

    def progress(self, fraction: float) -> None:
        """Called by the loop before each step with the share of the run that is done, for schedules."""
        ...

    def stateful(self) -> dict[str, Stateful]: ...


class Lease(Protocol):
    """The right to write a run, and its connection to the store of all runs.

    Everything a run commits passes here with the number of its ownership, `token`: a process whose run was taken over
    gets `LeaseLost` and has written nothing.
    """

    token: int

    def check(self) -> None:
        """Before each commit; `LeaseLost` when another owner has taken the run."""
        ...

    def move(self, state: RunState, reason: Reason, message: str, facts: State) -> tuple[RunState, Reason]:
        """The run changes its state; returns what it became: a stop that was asked for is not a mere signal."""
        ...

    def safe_point(self) -> bool:
        """Called at every Tick, as a sign of progress. True when a stop was asked for: the run stops here."""
        ...

    def tell(self, facts: State) -> None:
        """How far the run is. Cheap: called for every epoch."""
        ...

    def publish(self, checkpoints: Sequence[State]) -> None:
        """These checkpoints (step, state_hash, manifest_sha256) are whole on disk, and no others."""
        ...

    def release(self) -> None: ...
