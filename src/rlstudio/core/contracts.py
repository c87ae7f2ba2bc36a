"""The contracts between the rooms, as Protocols. Parts that a catalog names have contract suites (`rlstudio.testing`,
over all of them in `tests/contracts`), the others tests beside what implements them.

Array kinds: environments and the acting path on a CPU speak NumPy, learning speaks torch. A `State` is what a
checkpoint can hold: nested dicts and lists of tensors, NumPy arrays, `Segment`s and plain JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from rlstudio.core.arrays import Namespace
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

    `infos` holds the chosen keys (`spaces.infos`), float32 [num_envs] each: NaN where an environment's info has no such
    key in this step.

    `active` is there where one environment has several agents, a column each: False where an agent has no transition
    in this step, because it is out of its episode or waits for its turn.
    """

    observations: Array
    successors: Array
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, np.ndarray]
    active: np.ndarray | None = None


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

    spaces: Spaces
    acting: str  # which kernel acts ("numpy" or "torch"); part of the recorded topology
    remembers: bool  # whether it has a carry: a dict of arrays with a row per env, zero where an episode starts

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        """Noise for a whole rollout, drawn at once: [steps, num_envs, ...]."""
        ...


class Place(NamedTuple):
    """Where actions are taken, counted over the whole run: a worker may act in a part of the environments."""

    env_steps: int  # steps of all environments once this one is taken
    envs: np.ndarray  # numbers of the environments that act here
    num_envs: int  # of the run


class Explore(Stateful, Protocol):
    """Exploration on top of an agent's actions; belongs to what collects, so evaluation needs no flag."""

    remembers: bool  # whether something travels from step to step, to be forgotten when an episode ends

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> Any: ...

    def __call__(self, actions: np.ndarray, noise: Any, observations: Array, place: Place) -> np.ndarray: ...

    def progress(self, fraction: float) -> None:
        """The share of the run that is done, for what changes with it."""
        ...

    def forget(self, envs: np.ndarray) -> None:
        """The episodes of these environments ended; counted among those that act here."""
        ...


class Tally(NamedTuple):
    """What collecting has to report. Episodes are those that ended since the last report, the rest counts from the
    start of the run."""

    returns: list[float]
    lengths: list[int]
    bad_rows: int  # that learning does not see,
    bad: dict[str, int]  # and how often for which reason
    infos: dict[str, list[float]]  # what each of the episodes gave last for each chosen key; NaN where it never did
    restarts: list[str] | None = None  # of environment workers since the last report, why; None: there are no workers


class DataSource(Stateful, Protocol):
    """Where a trainer's Batches come from: fresh rollouts, replay, a dataset; collected here or elsewhere.

    A rollout may have `active` (False: no transition here, the agent is gone or waits for its turn) and
    `behaviour_log_probs` (of the actions, where the weights that acted are older than the trainer's).
    """

    @property
    def env_steps(self) -> int:
        """Environment steps so far; asked at every step, so cheap."""
        ...

    @property
    def size(self) -> int:
        """Rows that are held for later samples; 0 of fresh rollouts."""
        ...

    @property
    def last(self) -> Batch | None:
        """What `next` gave last."""
        ...

    def next(self) -> Batch: ...

    def fresh(self, horizon: int = 1) -> Batch | None:
        """The rows that are new since the `next` before the last one, each given once; with a `horizon`, the n-step
        transitions that they completed. None where there are none."""
        ...

    def following(self, rows: Tensor, steps: int) -> Batch:
        """The rows that came `steps` after these in their environments."""
        ...

    def feedback(self, rows: Tensor, values: Tensor) -> None:
        """How wrong these rows were, for priorities."""
        ...

    def progress(self, fraction: float) -> None:
        """The share of the run that is done: exploration and priorities change with it, wherever acting happens."""
        ...

    def take(self) -> Tally:
        """What there is to report, once per epoch; what is not taken yet is part of the state."""
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
    """What a trainer wants from replay: `updates` samples per `every` environment steps, after `warmup` steps."""

    batch_size: int
    warmup: int
    every: int
    updates: int = 1
    horizon: int = 1  # rewards summed before the bootstrap,
    gamma: float = 1.0
    windows: bool = False  # or as many successive rows [horizon, N] instead
    priorities: PriorityPlan | None = None

    def first_sample(self, num_envs: int) -> int:
        """Environment steps before the first sample: at least one whole window in each environment."""
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

    def add(self, rollout: Batch, first_env: int = 0) -> None:
        """Append a rollout [T, B] of the environments from `first_env` on."""
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
        """Over the ranks: counts and moments of rows."""
        ...

    def largest(self, numbers: Tensor) -> Tensor:
        """Over the ranks, each number for itself."""
        ...

    def any(self, flag: Tensor) -> Tensor:
        """Whether it is true of one of them: then all do what follows."""
        ...

    def own(self, rng: Rng) -> Rng:
        """Random numbers of this rank; those of rank 0 are `rng` itself."""
        ...


class EnvFacts(Protocol):
    """What is known of environments without having one: enough to act in them, not to learn from them."""

    spaces: Spaces
    device: str

    @property
    def world(self) -> object | None:
        """The `env` section they are made from, for planners that use its equations; None where it is not known."""
        ...

    @property
    def env_id(self) -> str:
        """The id of the environments; empty where it is not known."""
        ...


class Runtime(EnvFacts, Protocol):
    """Where a trainer's experience comes from, and with whom it learns. This process, workers and ranks differ here and
    nowhere in an algorithm."""

    group: Group

    @property
    def num_envs(self) -> int:
        """Environments whose rows this process learns from."""
        ...

    @property
    def exact(self) -> str | None:
        """None: a resumed run gets the same experience bit for bit. Otherwise why not."""
        ...

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> DataSource:
        """Fresh rollouts [steps, num_envs] of the agent as it is at that moment."""
        ...

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> DataSource:
        """Samples of what the agent did before, kept at the plan's ratio."""
        ...

    def topology(self) -> State:
        """What of it decides the bits of a run."""
        ...

    def close(self) -> None: ...


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

    def plan(self, observations: Tensor, score: Score, carry: dict[str, Tensor] | None, noise: Tensor) -> Planned:
        """observations [E, O], and noise as `noise` draws it; without a carry as with an empty one."""
        ...


class Trainer(Protocol):
    """One algorithm: one learning step. No schedule, no logging, no files."""

    @property
    def agent(self) -> Agent: ...

    @property
    def source(self) -> DataSource: ...

    @property
    def gradient_steps(self) -> int:
        """Updates so far, skipped ones included."""
        ...

    @property
    def skipped(self) -> float:
        """Updates that were not finite and therefore changed nothing."""
        ...

    @property
    def lr(self) -> float | None:
        """The learning rate now; None where nothing is learned."""
        ...

    def weights_are_finite(self) -> bool: ...

    def train_step(self) -> Metrics: ...

    def eval_step(self) -> Metrics: ...

    def progress(self, fraction: float) -> None:
        """Called by the loop before each step with the share of the run that is done, for schedules."""
        ...

    def stateful(self) -> dict[str, Stateful]: ...


class Lane(Protocol):
    """A way to compute an algorithm: step by step, as a graph, as one kernel. Its trainer names the same state in the
    same shapes as the algorithm's own, so that a checkpoint of one goes on in the other."""

    def refuses(self, algo: str, cfg: Any, network: Any, runtime: Runtime) -> str | None:
        """Why it cannot train this; None where it can."""
        ...

    def trainer(self, algo: str, cfg: Any, runtime: Runtime, network: Any, rng: Rng) -> Trainer: ...


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


A = TypeVar("A")


class Transition(NamedTuple, Generic[A]):
    """One step of a World. With several agents all but the states have an axis of agents more."""

    states: A  # [..., S]
    rewards: A  # [...]
    terminated: A  # [...] bool; of an agent among several: out of the episode, which goes on until all are
    active: A | None = None  # [...] bool, of several agents: who takes part in this step; None: all that are not out


class World(Protocol[A]):
    """Mathematics without memory: pure functions over arrays `A` with any leading dimensions, written once for NumPy
    and torch; `xp` is the module. A world with randomness keeps its dice in the state.

    `p` has the parameters by name: floats, or arrays with a number per environment, shaped to go with the leading
    dimensions. Dims: S numbers of state, K uniform numbers that start an episode.

    With `agents` > 1 there is still one state per environment. Observations, actions and rewards are per agent, in an
    axis behind the leading dimensions, and `spaces` are those of one agent.
    """

    id: str
    spaces: Spaces
    state_size: int
    noise_size: int
    limit: int | None  # steps after which an episode is truncated
    agents: int
    params: Mapping[str, float]  # the parameters there are, and their values where nobody sets them

    def initial(self, noise: A, p: Mapping[str, float | A], xp: Namespace) -> A:
        """First states [..., S] from uniform noise [..., K]."""
        ...

    def dynamics(self, states: A, actions: A, p: Mapping[str, float | A], xp: Namespace) -> Transition[A]: ...

    def observe(self, states: A, p: Mapping[str, float | A], xp: Namespace) -> A | dict[str, A]:
        """What the spaces say; a dict where they are a Dict, for example with the entry `action_mask`."""


class Score(Protocol):
    """What a sequence of actions is worth in a model of the world. Pure. Dims as in `Dynamics`; H steps of a plan."""

    @property
    def dynamics(self) -> Dynamics: ...

    @property
    def gamma(self) -> float: ...

    def __call__(self, observations: Tensor, actions: Tensor) -> Tensor:
        """observations [E, O], actions [E, K, H, ...] -> scores [E, K], without gradients; -inf counts for nothing."""
        ...

    def returns(self, observations: Tensor, actions: Tensor) -> Tensor:
        """The same with gradients, and with whatever is not finite."""
        ...

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        """One step of the model, with the reward to plan with."""
        ...

    def worth(self, states: Tensor) -> Tensor | None:
        """What is still to come [P, E, K]; None: nothing."""
        ...
