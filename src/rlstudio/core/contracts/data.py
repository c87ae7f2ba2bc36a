"""Where a trainer's Batches come from: sources, replay, the runtime, and with whom it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from rlstudio.core.contracts.acting import Agent, Explore
from rlstudio.core.contracts.basics import State, Stateful
from rlstudio.core.contracts.environments import EnvFacts

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from rlstudio.core.batch import Batch
    from rlstudio.core.rng import Rng


class EpisodeDraws(NamedTuple):
    """Episodes with drawn parameters, an entry for each: the version of the Draw, which of its components was taken,
    and what was drawn for every parameter."""

    versions: list[int]
    components: list[int]
    values: dict[str, list[float]]


class FragmentTag(NamedTuple):
    """One fragment of a worker: its number, the version of the weights it acted with, vector steps."""

    worker: int
    version: int
    steps: int


class FragmentRound(NamedTuple):
    """The fragments that a source received together from asynchronous workers, the version of the newest weights at
    that time, and the address of their random numbers."""

    version: int
    seed: str
    fragments: list[FragmentTag]

    @classmethod
    def from_json(cls, value: list[Any]) -> FragmentRound:
        version, seed, tags = value
        return cls(version, seed, [FragmentTag(*tag) for tag in tags])


class Contributor(NamedTuple):
    """A source of rows: a worker, or an environment. `columns`: its columns among all that are collected."""

    name: str
    columns: range


class Tally(NamedTuple):
    """The report of a collector. Episodes and restarts are those since the last report; bad rows count from the start
    of the run."""

    returns: list[float]  # NaN of an episode with a reward that cannot be used
    lengths: list[int]
    bad_rows: int  # that learning does not see,
    bad: dict[str, int]  # and how often for which reason
    infos: dict[str, list[float]]  # what each of the episodes gave last for each chosen key; NaN where it never did
    restarts: list[str] | None = None  # of environment workers since the last report, why; None: there are no workers
    outside: str | None = None  # the first observation far outside its space, once
    bad_row: str | None = None  # the first bad row since the last report: where it is, and what is wrong with it
    metrics: dict[str, float] | None = None  # of environments that have some of their own, by their full names
    draws: EpisodeDraws | None = None  # of the episodes above, in their order; None: their parameters are not drawn
    fragments: list[FragmentRound] | None = None  # since the last report, of asynchronous workers
    quarantined: list[str] | None = None  # sources whose rows count no more since the last report, and why


class DataSource(Stateful, Protocol):
    """Where a trainer's Batches come from: fresh rollouts, replay, a dataset; collected here or elsewhere.

    A rollout may have `active` (False: no transition here, the agent is gone or waits for its turn) and
    `behaviour_log_probs` (of the actions, where the weights that acted are older than the trainer's).
    """

    @property
    def env_steps(self) -> int:
        """Environment steps of the whole run so far; asked at every step, so cheap."""
        ...

    @property
    def size(self) -> int:
        """Rows that are held for later samples; 0 of fresh rollouts."""
        ...

    @property
    def last(self) -> Batch | None:
        """The last Batch of `next`."""
        ...

    def next(self) -> Batch: ...

    def fresh(self, horizon: int = 1) -> Batch:
        """The rows that are new since the `next` before the last one, each given once; with a `horizon`, the n-step
        transitions that they completed. Often that is a Batch of no rows: ranks get new rows at different moments, but
        all must take part in what is computed from them."""
        ...

    def following(self, rows: Tensor, steps: int) -> Batch:
        """The rows that came `steps` after these in their environments."""
        ...

    def after_warmup(self, rows: Tensor) -> Tensor:
        """Which of these rows were taken after the warm-up of the plan, so not by a random start."""
        ...

    def feedback(self, rows: Tensor, values: Tensor) -> None:
        """Report the errors of these rows, for priorities."""
        ...

    def progress(self, fraction: float) -> None:
        """Called with the share of the run that is done; exploration and priorities change with it, wherever acting
        happens."""
        ...

    def take(self) -> Tally:
        """The report of an epoch. What is not taken yet is part of the state."""
        ...


@runtime_checkable
class WarmsUp(Protocol):
    """A source whose first Batch waits for a warm-up. If the warm-up is collected in parts, the run reports, evaluates
    and saves meanwhile; the rows are the same either way."""

    @property
    def is_warming(self) -> bool:
        """No Batch was taken yet."""
        ...

    def warm_up(self, most: int) -> bool:
        """Collect about `most` of the steps that the first Batch waits for. False if nothing was collected because no
        more than that is left; then `next` collects the rest."""
        ...


@dataclass(frozen=True)
class PriorityPlan:
    """Prioritised replay (Schaul et al. 2016): `beta` goes to `beta_end` over the run."""

    alpha: float
    beta: float
    beta_end: float
    eps: float


@dataclass(frozen=True)
class ReplayPlan:
    """What a trainer wants from replay: `updates` samples per `every` environment steps, after `warmup` steps. Steps
    are those of the whole run; each rank draws its own samples."""

    batch_size: int
    warmup: int
    every: int
    updates: int = 1
    horizon: int = 1  # rewards summed before the bootstrap,
    gamma: float = 1.0
    windows: bool = False  # or as many successive rows [horizon, N] instead
    priorities: PriorityPlan | None = None

    def first_sample(self, num_envs: int) -> int:
        """Steps before the first sample: at least one whole window in each environment of the run."""
        return max(self.warmup, self.horizon * num_envs, self.every)


class ReplayBuffer(Stateful, Protocol):
    """Past transitions. Row number k * num_envs + e is the k-th of environment e, for ever."""

    num_envs: int
    capacity: int

    @property
    def counts(self) -> np.ndarray:
        """How many rows each environment has added, [num_envs]."""
        ...

    def __len__(self) -> int:
        """Rows held."""
        ...

    def add(self, rollout: Batch, column: int = 0) -> None:
        """Append a rollout [T, B] of the environments from this one of ours on."""
        ...

    def sample(self, batch_size: int, generator: np.random.Generator, horizon: int = 1, gamma: float = 1.0) -> Batch:
        """Uniform rows [N] with replacement; with a `horizon`, n-step transitions."""
        ...

    def windows(self, batch_size: int, generator: np.random.Generator, horizon: int) -> Batch:
        """Uniform pieces of successive rows, [horizon, N]."""
        ...

    def at(self, numbers: np.ndarray, horizon: int = 1, gamma: float = 1.0) -> Batch:
        """The rows of these numbers, as `sample` would give them."""
        ...

    def held_between(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The numbers of the rows first .. last - 1 of each environment that are still held, in order."""
        ...


class Group(Protocol):
    """The processes that learn one policy together, each from environments of its own. All must call the same methods
    in the same order: what decides whether one is called must be equal in all of them."""

    rank: int
    size: int

    def mean(self, flat: Tensor) -> None:
        """In place, the mean over the ranks."""
        ...

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum over the ranks, of counts and moments of rows."""
        ...

    def largest(self, numbers: Tensor) -> Tensor:
        """The maximum over the ranks, element by element."""
        ...

    def any(self, flag: Tensor) -> Tensor:
        """Whether the flag is true on any rank; then all ranks do what follows."""
        ...

    def own(self, rng: Rng) -> Rng:
        """Random numbers of this rank; those of rank 0 are `rng` itself."""
        ...


class Runtime(EnvFacts, Protocol):
    """Where a trainer's experience comes from, and which processes learn with it. An algorithm does not see whether
    that is this process, workers or ranks."""

    group: Group

    @property
    def num_envs(self) -> int:
        """Environments whose rows this process learns from."""
        ...

    @property
    def run_envs(self) -> int:
        """Environments of the whole run, those of all ranks: what steps are counted in."""
        ...

    @property
    def exact(self) -> str | None:
        """None if a resumed run gets the same experience bit for bit; otherwise the reason why not."""
        ...

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> DataSource:
        """Fresh rollouts [steps, num_envs] of the agent as it is at that moment."""
        ...

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> DataSource:
        """Samples of past transitions, at the plan's ratio of updates to steps."""
        ...

    def topology(self) -> State:
        """The facts about it that the bits of a run depend on."""
        ...

    def close(self) -> None: ...
