"""Environments: a vector of them that steps together, and a World in array code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from rlstudio.core.contracts.arrays import Namespace
from rlstudio.core.contracts.basics import Array, State

if TYPE_CHECKING:
    import numpy as np

    from rlstudio.core.contracts.acting import Agent
    from rlstudio.core.spaces import Spaces


class Step(NamedTuple):
    """One step of all environments, in the environment's own arrays, valid until the next step.

    `observations` is what to act on next (already reset where an episode ended); `successors` is the true next
    observation of the transition, never a reset one. Where no episode ended the two hold equal rows.

    `infos` holds the chosen keys (`spaces.infos`), float32 [num_envs] each: NaN where an environment's info has no such
    key in this step.

    `active` is there where one environment has several agents, a column each: False where an agent does not act in this
    step, because it is out of its episode or waits for its turn. Rewards and the end of its episode while it waits are
    the outcome of its last action.
    """

    observations: Array
    successors: Array
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, np.ndarray]
    active: np.ndarray | None = None


class VecEnv(Protocol):
    """`num_envs` copies of one world. Every episode is seeded by (seed, env, episode); autoreset is hidden.

    With several agents each of them is one of the `num_envs`: agent a of environment e is number e * agents + a.
    """

    spaces: Spaces
    num_envs: int
    agents: int  # of each environment
    vectorization: str  # how the environments are stepped; part of the recorded topology
    exact: str | None  # None: `seek` restores bit for bit. Otherwise the reason why it cannot be promised.

    @property
    def restart_reasons(self) -> list[str] | None:
        """Why workers were replaced; whoever reads them empties the list. None: there are no workers."""
        ...

    def describe_episode(self, env: int, ago: int = 0) -> str:
        """How a message names the open episode of an environment, or the one `ago` episodes before it: its number and
        its seed, `episode 3 (seed 1608637542)`."""
        ...

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


@runtime_checkable
class NamedAgents(Protocol):
    """A VecEnv with several agents that says which they are, so that teams of them can be told apart.

    Arrays are those of `spaces`, in which every agent has its place: the numbers of a smaller one come first along
    each axis, zeros follow, and its choices are the first ones. Kinds of space, and the names of entries, are the same
    for all. What a central critic may see is the entry `state` of a Dict observation, the same in the columns of all
    agents of an environment; it is there only where the `env` section asks for it.
    """

    agent_names: tuple[str, ...]  # of the agents of one environment, in the order of their columns
    agent_spaces: tuple[Spaces, ...]  # what each of them is really shown and takes


@runtime_checkable
class SeatsLearner(Protocol):
    """A VecEnv that plays some of its agents itself, perhaps by the learner's own weights."""

    def bind(self, learner: Agent) -> None:
        """Whose actions `step` will get from now on."""
        ...

    def close_epoch(self) -> dict[str, float]:
        """Metrics of the epoch that ends, by their full names. Who plays its agents may change now."""
        ...


class EnvFacts(Protocol):
    """What is known about environments without making one: enough to act in them, not to learn from them."""

    spaces: Spaces
    device: str

    @property
    def env_config(self) -> object | None:
        """The `env` section they are made from, for planners that use its equations; None if it is not known."""
        ...

    @property
    def env_id(self) -> str:
        """The id of the environments; empty if it is not known."""
        ...


A = TypeVar("A")


class Transition(NamedTuple, Generic[A]):
    """One step of a World. With several agents, all but the states have one more axis, for the agents."""

    states: A  # [..., S]
    rewards: A  # [...]
    terminated: A  # [...] bool; of an agent among several: out of the episode, which goes on until all are
    active: A | None = None  # [...] bool, of several agents: whose action counts in this step; None: of all not out


class World(Protocol[A]):
    """Pure functions over arrays `A` with any leading dimensions, written once for NumPy and torch; `xp` is the module.
    A world with randomness keeps its random state in the state.

    `p` has the parameters by name: floats, or arrays with a number per environment, shaped to go with the leading
    dimensions. Dims: S numbers of state, K uniform numbers that start an episode.

    With `agents` > 1 there is still one state per environment. Observations, actions and rewards are per agent, in an
    axis behind the leading dimensions, and `spaces` are those of one agent. Agents that wait for their turn may get
    rewards meanwhile, for what they did before; their actions are ignored.
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
        """The observation, as the spaces describe it; a dict if they are a Dict, for example with the entry
        `action_mask`."""
