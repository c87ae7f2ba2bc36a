"""Learning: trainers, and ways to compute them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rlstudio.core.contracts.acting import Agent
from rlstudio.core.contracts.basics import Metrics, Stateful
from rlstudio.core.contracts.data import DataSource, Runtime

if TYPE_CHECKING:
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
    same shapes as the algorithm's own, so that a checkpoint of one goes on in the other.

    `cfg` is the `train` section, of the class that the algorithm has for it; `network` is `policy.network`.
    """

    def refuses(self, algo: str, cfg: object, network: object, runtime: Runtime) -> str | None:
        """Why it cannot train this; None where it can."""
        ...

    def trainer(self, algo: str, cfg: object, runtime: Runtime, network: object, rng: Rng) -> Trainer: ...
