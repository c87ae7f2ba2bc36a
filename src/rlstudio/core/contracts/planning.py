"""Planning: models of the world, scores, planners."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from rlstudio.core.contracts.basics import Metrics

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


AGE = "age"
"""The part of what an agent that plans carries which is not its planner's: how many steps old the episode is. It only
chooses the noise of an agent that gets none from outside."""


class Outcome(NamedTuple):
    """Where one step of a model leads."""

    states: Tensor  # [P, E, K, S]
    rewards: Tensor  # [P, E, K]
    continues: Tensor  # [P, E, K]: 1 where the episode goes on, 0 where it ends, between where the model is not sure


class SequenceOutcome(NamedTuple):
    """Where a sequence of H steps of a model leads."""

    states: Tensor  # [P, E, K, S], the last ones
    rewards: Tensor  # [H, P, E, K]
    continues: Tensor | None  # [H, P, E, K]; None of a world without ends


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
    """A Dynamics that rolls out a whole sequence faster than step by step."""

    def rollout(self, states: Tensor, actions: Tensor) -> SequenceOutcome:
        """actions [E, K, H, ...] -> the last states, and the rewards and continues of each step."""
        ...


class Planned(NamedTuple):
    """First actions [E, ...] (numbers in [-1, 1], or choices), what the next plan starts from, how this one went."""

    actions: Tensor
    carry: dict[str, Tensor]  # a row per environment, zero where an episode starts
    metrics: Metrics


class PlanNoise(Protocol):
    """The random numbers that a planner needs for one plan of each environment: [E, ...]."""

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
        """observations [E, O], and noise as `noise` draws it. No carry means an empty one."""
        ...


class Score(Protocol):
    """What a sequence of actions is worth in a model of the world. Pure. Dims as in `Dynamics`; H steps of a plan."""

    @property
    def dynamics(self) -> Dynamics: ...

    @property
    def gamma(self) -> float: ...

    def __call__(self, observations: Tensor, actions: Tensor) -> Tensor:
        """observations [E, O], actions [E, K, H, ...] -> scores [E, K], without gradients; -inf rules a sequence
        out."""
        ...

    def returns(self, observations: Tensor, actions: Tensor) -> Tensor:
        """The same with gradients, and with whatever is not finite."""
        ...

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        """One step of the model, with the reward to plan with."""
        ...

    def worth(self, states: Tensor) -> Tensor | None:
        """The value of what comes after [P, E, K]; None: nothing."""
        ...
