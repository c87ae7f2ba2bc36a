"""TeamCollector: one team of a Joint, as sources see whatever collects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import torch

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Agent, Array, Contributor, Explore, State, Step, Tally
from rlstudio.core.rng import Rng
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.explore import Exploration
from rlstudio.data.collect.inspection import Inspection
from rlstudio.data.collect.noise import NoiseBlocks
from rlstudio.data.collect.packer import Packer
from rlstudio.data.runtime import LocalRuntime
from rlstudio.data.teams.columns import TeamColumns


class Together(Protocol):
    """What a team needs of the Joint that it is part of."""

    runtime: LocalRuntime

    def advance(self, steps: int) -> None: ...


class TeamCollector:
    """Rows that came while another team collected wait here, and are part of the state."""

    def __init__(
        self, joint: Together, columns: TeamColumns, agent: Agent, rng: Rng, explore: Explore | None, guard: RowGuard
    ) -> None:
        env, group = joint.runtime.env, joint.runtime.group
        own = columns.among(env.num_envs)
        self.joint = joint
        self.columns = columns
        self.agent = agent
        self.num_envs = len(own)
        self.run_envs = joint.runtime.run_envs
        envs = group.rank * env.num_envs + own
        self.exploration = Exploration(explore, rng.fork("explore"), envs, self.run_envs)
        self.inspection = Inspection(env, guard, envs, columns.spaces, own.tolist())
        self.taken = 0  # vector steps whose rows were given to learning
        self._noise = NoiseBlocks(agent.noise, rng.fork("noise"), self.num_envs)
        self._packers: dict[int, Packer] = {}
        self._packer: Packer  # that is written now
        self._waiting: list[Batch] = []

    @property
    def env_steps(self) -> int:
        """Of all agents of the run, as far as this team has taken its rows."""
        return self.taken * self.run_envs

    # -- called by the Joint, for all teams in the same step --------------------------------------------------------

    def begin(self, steps: int) -> None:
        """So many steps come; what still waits of the last ones gets memory of its own."""
        self._waiting = [_copied(rollout) for rollout in self._waiting]
        if steps not in self._packers:
            self._packers[steps] = Packer(self.columns.spaces, steps, self.num_envs)
        self._packer = self._packers[steps]

    def act(self, t: int, step: int, observations: Array, actions: np.ndarray) -> None:
        """Write what the team does in vector step `step` of the run among the actions of all."""
        own = self.columns.observations(observations)
        acted = self.exploration(self.agent.step(own, None, self._noise.at(step)), own, step)
        self._packer.write_before(t, own, acted)
        self.columns.put(actions, acted.actions)

    def write_outcome(self, t: int, step: Step) -> None:
        own = self.columns.outcome(step)
        self._packer.write_after(t, own)
        if self.exploration.remembers and (ended := np.logical_or(own.terminated, own.truncated)).any():
            self.exploration.forget(ended.nonzero()[0])

    def finish(self) -> None:
        self._waiting.append(self.inspection(self._packer))

    def forget_columns(self, restarted: np.ndarray) -> None:
        """Environments that begin their episodes anew, counted among those of all teams."""
        (own,) = np.isin(self.columns.among(self.joint.runtime.env.num_envs), restarted).nonzero()
        self.exploration.forget(own)
        self.inspection.forget(own)

    @property
    def origins(self) -> Sequence[Contributor]:
        """Nobody knows them: the columns of a team are seats of several environments."""
        return ()

    @property
    def has_like_origins(self) -> bool:
        return False

    # -- called by the source of the team -----------------------------------------------------------------------------

    def collect(self, steps: int) -> Batch:
        missing = steps - sum(map(len, self._waiting))
        if missing > 0:
            self.joint.advance(missing)
        self.taken += steps
        if len(self._waiting[0]) == steps:
            return self._waiting.pop(0)
        rows = _joined(self._waiting)
        self._waiting = [rows.select(slice(steps, None))] if len(rows) > steps else []
        return rows.select(slice(0, steps))

    def fragments(self, steps: int) -> Iterable[tuple[int, Batch]]:
        return [(0, self.collect(steps))]

    def progress(self, fraction: float) -> None:
        self.exploration.progress(fraction)

    def take(self) -> Tally:
        return self.inspection.take()

    def state_dict(self) -> State:
        waiting = _joined(self._waiting) if self._waiting else None
        return {
            "taken": self.taken,
            "waiting": {} if waiting is None else dict(waiting.only(waiting.names)),
            **self.inspection.state_dict(),
            "explore": self.exploration.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        self.taken = int(state["taken"])
        columns: dict[str, Column] = {name: _tensors(column) for name, column in state["waiting"].items()}
        self._waiting = [Batch(lead=2, infos=None, **columns)] if columns else []
        self.inspection.load_state_dict(state)
        self.exploration.load_state_dict(state["explore"])


def _joined(rollouts: list[Batch]) -> Batch:
    """One after the other; only rollouts with bad rows have weights."""
    if len(rollouts) > 1 and any(rollout.weights is not None for rollout in rollouts):
        rollouts = [
            rollout.with_(weights=torch.ones(rollout.shape)) if rollout.weights is None else rollout
            for rollout in rollouts
        ]
    return Batch.merge(rollouts) if len(rollouts) > 1 else rollouts[0]


def _copied(rollout: Batch) -> Batch:
    return Batch.merge([rollout])


def _tensors(column: State | np.ndarray) -> Column:
    if isinstance(column, dict):
        return {name: torch.as_tensor(np.asarray(entry)) for name, entry in column.items()}
    return torch.as_tensor(np.asarray(column))
