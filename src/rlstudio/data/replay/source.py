"""ReplaySource: samples of a replay buffer that is kept filled at a fixed ratio of updates to data."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import ReplayBuffer as ReplayRows
from rlstudio.core.contracts import ReplayPlan, State, Tally
from rlstudio.core.errors import ConfigError
from rlstudio.core.host.phases import PHASES
from rlstudio.core.host.trace import TRACE
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.collect.collecting import Collecting
from rlstudio.data.collect.explore import EpsilonGreedy
from rlstudio.data.collect.turns import OpenDecisions
from rlstudio.data.replay.buffer import ReplayBuffer, without_rows
from rlstudio.data.replay.health import replay_health
from rlstudio.data.replay.priorities import Priorities
from rlstudio.data.replay.sources import Sources


def new_replay(
    collector: Collecting,
    spaces: Spaces,
    capacity: int,
    num_envs: int,
    rng: Rng,
    plan: ReplayPlan,
    device: str,
    *,
    quarantine: bool = True,
    name: str = "",
) -> ReplaySource:
    """The source of an empty buffer, which the collector fills. `quarantine`: rows of one that lies do not count."""
    replay = ReplayBuffer(spaces, capacity, num_envs, name)
    chosen = plan.priorities
    priorities = None if chosen is None else Priorities(replay.numbering, plan.horizon, chosen)
    sources = Sources(replay, spaces, collector.origins, compared=quarantine and collector.has_like_origins)
    return ReplaySource(collector, replay, rng, plan, device, priorities, sources)


class ReplaySource:
    """Samples of a replay buffer, at the ratio of a plan.

    The ratio is kept by counting, not by time: sample number n, counted from 0, is drawn once warmup + floor(n /
    updates) * every steps have been collected, whatever the number of environments.
    """

    def __init__(
        self,
        collector: Collecting,
        replay: ReplayRows,
        rng: Rng,
        plan: ReplayPlan,
        device: str = "cpu",
        priorities: Priorities | None = None,
        sources: Sources | None = None,
    ) -> None:
        if plan.horizon * replay.num_envs > replay.capacity:
            raise ConfigError(
                f"buffer.capacity: {replay.capacity} rows of {replay.num_envs} environments hold no window of"
                f" {plan.horizon} steps; raise it to {plan.horizon * replay.num_envs} or more"
            )
        self.collector = collector
        self.replay = replay
        self.rng = rng
        self.plan = plan
        self.device = device
        self.warmup = plan.first_sample(collector.run_envs)
        self.priorities = priorities
        self.sources = sources
        self.samples = 0
        self.last: Batch | None = None
        self._open: dict[int, OpenDecisions] = {}  # of the fragments, by their first column
        self._has_window = False  # once there is one there always is
        self._none: dict[int, Batch] = {}  # no rows, by horizon
        self._known = np.zeros(replay.num_envs, np.int64)  # rows of each environment before the last `next`

    @property
    def env_steps(self) -> int:
        return self.collector.env_steps

    @property
    def size(self) -> int:
        return len(self.replay)

    @property
    def is_warming(self) -> bool:
        return not self.samples

    def warm_up(self, most: int) -> bool:
        """In whole chunks, so that the calls of the environment are those of a warm-up in one piece."""
        run_envs = self.collector.run_envs
        steps = max(most // run_envs // self._chunk, 1) * self._chunk
        if self.samples or steps * run_envs >= self.warmup - self.collector.env_steps:
            return False
        self._collect(steps)
        if self.priorities is not None:
            self.priorities.extend()  # what it has not seen yet would be missing from a checkpoint
        return True

    def next(self) -> Batch:
        """Collect what the ratio asks for, then draw one sample."""
        if self.samples:  # the rows of the warm-up are all new to the first sample
            np.copyto(self._known, self.replay.counts)
        due = self.warmup + self.samples // self.plan.updates * self.plan.every
        missing = due - self.collector.env_steps
        if missing > 0:
            self._collect(-(-missing // self.collector.run_envs))
        if not self._has_window:
            while (self.replay.counts < self.plan.horizon).all():  # agents that wait fill no rows
                self._collect(1)
            self._has_window = True
        self.samples += 1
        batch = self._weighed(self._draw(self.rng.generator(self.samples)))
        self.last = batch if self.device == "cpu" else batch.to(self.device)
        return self.last

    def fresh(self, horizon: int = 1) -> Batch:
        later = horizon - 1
        numbers = self.replay.held_between(self._known - later, self.replay.counts - later)
        if len(numbers):
            return self._weighed(self.replay.at(numbers, horizon, self.plan.gamma)).to(self.device)
        if horizon not in self._none:  # between two rounds of collecting it is asked for with every sample
            self._none[horizon] = self.replay.at(numbers, horizon, self.plan.gamma).to(self.device)
        return self._none[horizon]

    def following(self, rows: Tensor, steps: int) -> Batch:
        numbers = rows.numpy(force=True) + steps * self.replay.num_envs
        return self._weighed(self.replay.at(numbers)).to(self.device)

    def _weighed(self, batch: Batch) -> Batch:
        return batch if self.sources is None else self.sources.weighed(batch)

    def _draw(self, generator: np.random.Generator) -> Batch:
        plan = self.plan
        if plan.windows:
            return self.replay.windows(plan.batch_size, generator, plan.horizon)
        if self.priorities is None:
            return self.replay.sample(plan.batch_size, generator, horizon=plan.horizon, gamma=plan.gamma)
        self.priorities.extend()
        numbers, importance = self.priorities.draw(plan.batch_size, generator)
        batch = self.replay.at(numbers, plan.horizon, plan.gamma)
        weights = torch.from_numpy(importance)
        return batch.with_(weights=weights if batch.weights is None else weights * batch.weights)

    @property
    def _chunk(self) -> int:
        """Vector steps that are collected at a time."""
        return max(self.plan.every // self.collector.run_envs, 1)

    def _collect(self, vector_steps: int) -> None:
        chunk, started = self._chunk, time.perf_counter()
        while vector_steps > 0:
            steps = min(chunk, vector_steps)
            for column, rollout in self.collector.fragments(steps):
                waits = "active" in rollout
                self.replay.add(self._completed(rollout, column) if waits else rollout, column)
            vector_steps -= steps
            if self.sources is not None:
                self.sources.look()
        PHASES.collect += time.perf_counter() - started
        TRACE.span("collect", started)

    def _completed(self, rollout: Batch, column: int) -> Batch:
        return self._decisions(column).complete(rollout)

    def _decisions(self, column: int) -> OpenDecisions:
        if column not in self._open:
            self._open[column] = OpenDecisions(self.plan.warmup // self.collector.run_envs)
        return self._open[column]

    def after_warmup(self, rows: Tensor) -> Tensor:
        numbers, envs = np.divmod(rows.numpy(force=True), self.replay.num_envs)
        if not self._open:  # a row for each step
            return torch.from_numpy(numbers * self.collector.run_envs + envs >= self.plan.warmup).to(rows.device)
        early = np.zeros(self.replay.num_envs, np.int64)
        for column, held in self._open.items():
            early[column : column + len(held.early)] = held.early
        return torch.from_numpy(numbers >= early[envs]).to(rows.device)

    def feedback(self, rows: Tensor, values: Tensor) -> None:
        """Update the priorities of these rows by their errors; nothing happens without priorities."""
        if self.priorities is None:
            return
        numbers, errors = rows.numpy(force=True), values.numpy(force=True)
        if self.sources is not None and self.sources.quarantined:
            errors = errors * self.sources.count(numbers)  # what nobody learns from is not drawn for its error
        self.priorities.feedback(numbers, errors)

    def progress(self, fraction: float) -> None:
        self.collector.progress(fraction)
        if self.priorities is not None:
            self.priorities.progress(fraction)

    def take(self) -> Tally:
        """With the health of the replay, and the share of random actions where there is one."""
        tally = self.collector.take()
        explore = getattr(getattr(self.collector, "exploration", None), "explore", None)
        epsilon = {"train/epsilon": float(explore.epsilon)} if isinstance(explore, EpsilonGreedy) else {}
        own = {**replay_health(self.replay, self.last), **epsilon}
        if self.sources is not None:
            own |= self.sources.metrics()
            tally = tally._replace(quarantined=self.sources.take() or None)
        return tally._replace(metrics={**(tally.metrics or {}), **own})

    def state_dict(self) -> State:
        parts = {"collector": self.collector.state_dict(), "replay": self.replay.state_dict(), "samples": self.samples}
        if self.priorities is not None:
            parts["priorities"] = self.priorities.state_dict()
        if self.sources is not None and (kept := self.sources.state_dict()):
            parts["sources"] = kept
        if self._open:
            parts["open"] = {str(column): held.state_dict() for column, held in self._open.items()}
        return parts

    @staticmethod
    def without_rows(state: State) -> State:
        """A state of this source as if its rows had never been added."""
        emptied = {**state, "replay": without_rows(state["replay"])}
        if "priorities" in state:
            emptied["priorities"] = Priorities.without_rows(state["priorities"])
        if "open" in state:
            emptied["open"] = {column: OpenDecisions.without_rows(held) for column, held in state["open"].items()}
        return emptied

    def load_state_dict(self, state: State) -> None:
        self.collector.load_state_dict(state["collector"])
        self.replay.load_state_dict(state["replay"])
        self._has_window = False
        self.samples = int(state["samples"])
        if self.samples and not self.replay.counts.any():
            # Emptied: the next sample is the one that is due `warmup` steps from here, so that no burst of samples from
            # a few rows follows.
            self.samples = max(self.samples, -(-self.env_steps // self.plan.every) * self.plan.updates)
        if self.priorities is not None:
            self.priorities.load_state_dict(state["priorities"])
        if self.sources is not None:
            self.sources.load_state_dict(state.get("sources", {}))
        for column, held in state.get("open", {}).items():
            self._decisions(int(column)).load_state_dict(held)
