"""Learning: trainers, and ways to compute them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rlstudio.core.contracts.acting import Agent
from rlstudio.core.contracts.basics import Metrics, Stateful
from rlstudio.core.contracts.data import DataSource, Runtime
from rlstudio.core.contracts.environments import EnvFacts

if TYPE_CHECKING:
    from pydantic import BaseModel

    from rlstudio.core.rng import Rng


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
        """The current learning rate; None if nothing is learned."""
        ...

    def weights_are_finite(self) -> bool: ...

    def train_step(self) -> Metrics:
        """One learning step. Its metrics are scalars on the device that no later step may write to, because they are
        summed some steps later."""
        ...

    def eval_step(self) -> Metrics: ...

    def progress(self, fraction: float) -> None:
        """Called by the loop before each step with the share of the run that is done, for schedules."""
        ...

    def stateful(self) -> dict[str, Stateful]: ...


@runtime_checkable
class WeighsItself(Protocol):
    """A Trainer that says how large its weights are, so that training which went wrong is noticed."""

    def weight_rms(self) -> float:
        """Root mean square of what it learns; 0 if it learns nothing. Called once per epoch."""
        ...


@runtime_checkable
class LimitsGradients(Protocol):
    """A Trainer that skips gradients whose norm is above a limit that it is given."""

    def limit_gradients(self, norm: float) -> None: ...


@runtime_checkable
class TrainsTeams(Protocol):
    """A Trainer of several teams, each of which learns a policy of its own. In `stateful()` a part of a team is called
    `TEAM/part`."""

    trainers: Mapping[str, Trainer]


class Algorithm(Protocol):
    """What the catalog `ALGOS` holds: the class of a Trainer, with facts about it that are known before one is built.

    `cfg` is a `Config` of this algorithm, `network` is `policy.network`.
    """

    Config: type[BaseModel]  # of the section `train`; extends `algos.parts.config.RunLength`
    off_policy: bool  # whether it learns from what was done by older weights
    discrete: bool | None  # True: choices only; False: numbers only; None: both

    def __call__(self, cfg: Any, runtime: Runtime, network: Any, rng: Rng) -> Trainer: ...


@runtime_checkable
class BuildsAgent(Protocol):
    """An Algorithm whose agent cannot be built from its Model and the spaces alone, such as one that plans."""

    def build_agent(self, cfg: Any, env: EnvFacts, network: Any, rng: Rng) -> Agent | None:
        """The agent alone, without environments, data or optimizers. None: only a whole Trainer has one."""
        ...


class Lane(Protocol):
    """A way to compute an algorithm: step by step, as a graph, as one kernel. The state of its trainer has the names
    and shapes of the algorithm's own, so that each continues checkpoints of the other.

    `cfg` is the `train` section, of the class that the algorithm has for it; `network` is `policy.network`.
    """

    def refuses(self, algo: str, cfg: object, network: object, runtime: Runtime) -> str | None:
        """Why it cannot train this; None if it can."""
        ...

    def trainer(self, algo: str, cfg: object, runtime: Runtime, network: object, rng: Rng) -> Trainer: ...
