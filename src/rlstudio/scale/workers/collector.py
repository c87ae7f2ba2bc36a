"""WorkersCollector: rollouts of all workers side by side, inspected here as those of this process are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from torch import nn

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Agent, Contributor, State, Tally
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.inspection import Inspection
from rlstudio.data.collect.packer import Packer
from rlstudio.envs.params.section import numbers_only
from rlstudio.envs.seeds import episode_name
from rlstudio.ops.finite import is_finite
from rlstudio.scale.workers.crew import Crew
from rlstudio.scale.workers.job import RolloutJob


class Placed(NamedTuple):
    """Where in the whole run the environments of these workers stand."""

    first_env: int
    run_envs: int


class WorkersCollector:
    """Every rollout is collected with the weights that the agent has when it is asked for."""

    agents = 1

    def __init__(
        self, crew: Crew, job: RolloutJob, spaces: Spaces, agent: Agent, rng: Rng, guard: RowGuard, placed: Placed
    ) -> None:
        self.run_envs = placed.run_envs
        self._first_env = placed.first_env
        self.vector_steps = 0
        self._crew, self._spaces, self._agent = crew, spaces, agent
        self._seed, self._params = job.env_config.seed, job.env_config.params
        self._num_envs = crew.slices[-1].stop
        self._fraction = 0.0
        self._version = -1
        self._weights: dict[str, np.ndarray] = {}
        self._unsound = [False] * len(crew.slices)  # numbers that are none came from a fresh worker too
        self._packers: dict[int, Packer] = {}
        envs = np.arange(placed.first_env, placed.first_env + self._num_envs)
        self.inspection = Inspection(self, guard, envs, spaces)
        common = {"op": "begin", "job": job.to_json(), "total": self._num_envs, **placed._asdict()}
        address = {"seed": rng.seed, "path": rng.path}
        crew.begin(lambda worker: {**common, **address, **_span(crew.slices[worker], placed.first_env)})

    @property
    def env_steps(self) -> int:
        return self.vector_steps * self.run_envs

    @property
    def origins(self) -> list[Contributor]:
        return [
            Contributor(f"worker {worker}, {self._crew.name_of(worker)}", own)
            for worker, own in enumerate(self._crew.slices)
        ]

    @property
    def has_like_origins(self) -> bool:
        return numbers_only(self._params)

    @property
    def restart_reasons(self) -> list[str] | None:
        return self._crew.restart_reasons

    def describe_episode(self, env: int, ago: int = 0) -> str:
        worker = next(number for number, own in enumerate(self._crew.slices) if env in own)
        state = self._crew.states[worker]
        assert state is not None, "an episode is described after a rollout"
        position, index = state["env"], env - self._crew.slices[worker].start
        episode = int(position["episodes"][index]) - ago
        if position["kind"] == "state":
            return f"episode {episode} (of env.seed {self._seed})"
        return episode_name(self._seed, self._first_env + env, episode)

    def collect(self, steps: int) -> Batch:
        self._publish()
        request = {"op": "collect", "steps": steps, "progress": self._fraction, "version": self._version}
        packer = self._packers.get(steps)
        if packer is None:
            packer = self._packers[steps] = Packer(self._spaces, steps, self._num_envs)
        answers = self._crew.ask(lambda worker: request)
        for worker, answer in enumerate(answers):
            sound = self._sound(worker, answer, request)
            packer.write_columns(self._crew.slices[worker].start, sound["columns"])
            self._crew.keep(worker, sound)
        self.vector_steps += steps
        self._forget_restarted()
        return self.inspection(packer)

    def fragments(self, steps: int) -> Iterable[tuple[int, Batch]]:
        """What all workers collected in the same time is one fragment: their order of arrival decides nothing."""
        return [(0, self.collect(steps))]

    def _publish(self) -> None:
        """The agent's Model with its normalizer, where they changed since the last rollout."""
        weights = self._newest_weights()
        if self._version >= 0 and all(np.array_equal(array, self._weights[name]) for name, array in weights.items()):
            return
        self._weights, self._version = weights, self._version + 1
        self._crew.backend.publish(self._version, dict(weights))

    def _newest_weights(self) -> dict[str, np.ndarray]:
        model = getattr(self._agent, "model", None)
        newest = {} if not isinstance(model, nn.Module) else model.state_dict()
        return {name: tensor.numpy(force=True).copy() for name, tensor in newest.items()}

    def _sound(self, worker: int, answer: State, request: State) -> State:
        """The answer, from a fresh worker if there are numbers in it that are none. Where the fresh one says the same,
        it is the environment: its rows are left to the row guard, as without workers."""
        flaw = _flaw(answer["columns"])
        if flaw is None:
            self._unsound[worker] = False
        elif self._crew.restart_reasons is not None and not self._unsound[worker]:
            answer = self._crew.ask_again(worker, lambda _: request, f"gave {flaw} that are not finite")
            self._unsound[worker] = _flaw(answer["columns"]) is not None
        return answer

    def progress(self, fraction: float) -> None:
        self._fraction = fraction

    def take(self) -> Tally:
        return self.inspection.take()

    def _forget_restarted(self) -> None:
        if self._crew.restarted:
            self.inspection.forget(np.array(self._crew.restarted))
            self._crew.restarted = []

    def state_dict(self) -> State:
        slices: Sequence[State] = ()
        if self.vector_steps:
            answers = self._crew.ask(lambda worker: {"op": "state"})
            for worker, answer in enumerate(answers):
                self._crew.keep(worker, answer)
            slices = [state for state in self._crew.states if state is not None]
        return {"vector_steps": self.vector_steps, "slices": list(slices), **self.inspection.state_dict()}

    def load_state_dict(self, state: State) -> None:
        self.vector_steps = int(state["vector_steps"])
        self.inspection.load_state_dict(state)
        if state["slices"]:
            self._crew.load(state["slices"])
            self._forget_restarted()


def _span(own: range, first_env: int) -> State:
    return {"first": own.start, "count": len(own), "first_env": first_env + own.start}


def _flaw(columns: State) -> str | None:
    """The first column with a number that is not finite."""
    for name, column in columns.items():
        for array in column.values() if isinstance(column, dict) else (column,):
            if array.dtype.kind == "f" and name != "info" and not is_finite(array.reshape(-1)):
                return str(name)
    return None
