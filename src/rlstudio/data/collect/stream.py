"""StreamSource: fresh rollouts of the current agent, for algorithms that learn on-policy."""

from __future__ import annotations

from typing import Any

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.data.collect.collector import Collector


class StreamSource:
    """Each `next` is a new rollout of `steps` vector steps from the current agent."""

    def __init__(self, collector: Collector, steps: int, device: str = "cpu") -> None:
        self.collector = collector
        self.steps = steps
        self.device = device
        self.last: Batch | None = None

    def next(self) -> Batch:
        rollout = self.collector.collect(self.steps)
        self.last = rollout if self.device == "cpu" else rollout.to(self.device)
        return self.last

    def feedback(self, rows: Any, values: Any) -> None:
        """Fresh rollouts have no priorities."""

    def state_dict(self) -> State:
        return {"collector": self.collector.state_dict()}

    def load_state_dict(self, state: State) -> None:
        self.collector.load_state_dict(state["collector"])
