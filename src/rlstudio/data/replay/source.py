"""ReplaySource: samples of a replay buffer that is kept filled at a fixed ratio of updates to data."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.core.errors import ConfigError
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import Collector
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.data.replay.priorities import Priorities


class ReplaySource:
    """Samples of a replay buffer, at `updates` samples per `every` environment steps, after `warmup` steps.

    The ratio is kept by counting, not by time: sample number n is drawn once warmup + ceil(n / updates) * every steps
    have been collected, whatever the number of environments.
    """

    def __init__(
        self,
        collector: Collector,
        replay: ReplayBuffer,
        rng: Rng,
        *,
        batch_size: int,
        warmup: int,
        every: int,
        updates: int = 1,
        horizon: int = 1,
        gamma: float = 1.0,
        priorities: Priorities | None = None,
        device: str = "cpu",
    ) -> None:
        if horizon * replay.num_envs > replay.capacity:
            raise ConfigError(
                f"buffer.capacity: {replay.capacity} rows of {replay.num_envs} environments hold no window of"
                f" {horizon} steps; raise it to {horizon * replay.num_envs} or more"
            )
        self.collector = collector
        self.replay = replay
        self.rng = rng
        self.batch_size = batch_size
        self.warmup = max(warmup, horizon * replay.num_envs, every)
        self.every = every
        self.updates = updates
        self.horizon = horizon
        self.gamma = gamma
        self.priorities = priorities
        self.device = device
        self.samples = 0
        self.last: Batch | None = None
        self._known = 0  # rows before the last `next`

    def next(self) -> Batch:
        """Collect what the ratio asks for, then draw one sample."""
        self._known = self.replay.added
        due = self.warmup + self.samples // self.updates * self.every
        missing = due - self.collector.env_steps
        if missing > 0:
            self._collect(-(-missing // self.replay.num_envs))
        self.samples += 1
        batch = self._draw(self.rng.generator(self.samples))
        self.last = batch if self.device == "cpu" else batch.to(self.device)
        return self.last

    def fresh(self, horizon: int = 1) -> Batch | None:
        """The rows that came with the last `next`, for statistics that count each row once; with a `horizon` the n-step
        transitions that they completed. None where there are none."""
        span = (horizon - 1) * self.replay.num_envs
        numbers = np.arange(max(self._known - span, self.replay.oldest), self.replay.added - span)
        return self.replay.at(numbers, horizon, self.gamma).to(self.device) if len(numbers) else None

    def _draw(self, generator: np.random.Generator) -> Batch:
        if self.priorities is None:
            return self.replay.sample(self.batch_size, generator, horizon=self.horizon, gamma=self.gamma)
        self.priorities.extend(self.replay.added)
        numbers, importance = self.priorities.draw(self.batch_size, generator)
        batch = self.replay.at(numbers, self.horizon, self.gamma)
        weights = torch.from_numpy(importance)
        return batch.with_(weights=weights if batch.weights is None else weights * batch.weights)

    def _collect(self, vector_steps: int) -> None:
        chunk = max(self.every // self.replay.num_envs, 1)
        while vector_steps > 0:
            steps = min(chunk, vector_steps)
            rollout = self.collector.collect(steps)
            self.replay.add(rollout)
            vector_steps -= steps

    def feedback(self, rows: Tensor, values: Tensor) -> None:
        """Update the priorities of these rows by their errors; nothing happens without priorities."""
        if self.priorities is not None:
            self.priorities.feedback(rows.numpy(force=True), values.numpy(force=True))

    def state_dict(self) -> State:
        priorities = {} if self.priorities is None else {"priorities": self.priorities.state_dict()}
        counts = {"samples": self.samples, **priorities}
        return {"collector": self.collector.state_dict(), "replay": self.replay.state_dict(), **counts}

    @staticmethod
    def without_rows(state: State) -> State:
        """A state of this source as if its rows had never been added."""
        emptied = {**state, "replay": ReplayBuffer.without_rows(state["replay"])}
        if "priorities" in state:
            emptied["priorities"] = Priorities.without_rows(state["priorities"])
        return emptied

    def load_state_dict(self, state: State) -> None:
        self.collector.load_state_dict(state["collector"])
        self.replay.load_state_dict(state["replay"])
        self.samples = int(state["samples"])
        if not self.replay.added:
            # Emptied: the next sample is the one that is due `warmup` steps from here, so that no burst of samples from
            # a few rows follows.
            self.samples = max(self.samples, -(-self.collector.env_steps // self.every) * self.updates)
        if self.priorities is not None:
            self.priorities.load_state_dict(state["priorities"])
