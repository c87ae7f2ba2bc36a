"""StreamSource: fresh rollouts of the current agent, for algorithms that learn on-policy."""

from __future__ import annotations

import time

from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State, Tally
from rlstudio.core.errors import Incompatible
from rlstudio.core.host.phases import PHASES
from rlstudio.core.host.trace import TRACE
from rlstudio.data.collect.collecting import Collecting
from rlstudio.data.collect.turns import decisions


class NotKept:
    """What a source answers whose rows are gone with the next ones: they have no numbers, hence no priorities."""

    size = 0

    def following(self, rows: Tensor, steps: int) -> Batch:
        raise ValueError("fresh rollouts are not kept, so no row of them is numbered")

    def after_warmup(self, rows: Tensor) -> Tensor:
        raise ValueError("fresh rollouts are not kept, so no row of them is numbered")

    def feedback(self, rows: Tensor, values: Tensor) -> None:
        """Fresh rollouts have no priorities."""


class StreamSource(NotKept):
    """Each `next` is a new rollout of `steps` vector steps from the current agent."""

    def __init__(self, collector: Collecting, steps: int, device: str = "cpu") -> None:
        self.collector = collector
        self.steps = steps
        self.device = device
        self.last: Batch | None = None

    @property
    def env_steps(self) -> int:
        return self.collector.env_steps

    def next(self) -> Batch:
        started = time.perf_counter()
        rollout = self.collector.collect(self.steps)
        PHASES.collect += time.perf_counter() - started
        TRACE.span("collect", started)
        if "active" in rollout:
            if "carry" in rollout:
                raise Incompatible("policy.network.memory: agents that wait for a turn cannot have one; leave it out")
            rollout = decisions(rollout)
        self.last = rollout if self.device == "cpu" else rollout.to(self.device)
        return self.last

    def fresh(self, horizon: int = 1) -> Batch:
        """The newest rollout: every row of it is new."""
        if horizon > 1 or self.last is None:
            raise ValueError("fresh rollouts are not made of n-step transitions, and there are none before `next`")
        return self.last.flatten()

    def progress(self, fraction: float) -> None:
        self.collector.progress(fraction)

    def take(self) -> Tally:
        return self.collector.take()

    def state_dict(self) -> State:
        return {"collector": self.collector.state_dict()}

    def load_state_dict(self, state: State) -> None:
        self.collector.load_state_dict(state["collector"])
