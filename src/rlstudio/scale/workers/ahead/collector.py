"""AheadCollector: fragments of workers that act while the learner learns, with the weights of some rounds ago.

Rounds are counted: before each one the weights are published under its number, which is their version. What was taken
in a round, whose it was and with which version it acted, is noted for the log of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Agent, FragmentRound, FragmentTag, State, Tally
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.inspection import Inspection
from rlstudio.data.collect.packer import Packer
from rlstudio.data.collect.tallies import together
from rlstudio.scale.workers.ahead.crew import AheadCrew
from rlstudio.scale.workers.ahead.order import FragmentOrder
from rlstudio.scale.workers.backends import Lookahead
from rlstudio.scale.workers.collector import Placed, WorkersCollector
from rlstudio.scale.workers.job import RolloutJob

BEHAVIOUR = "behaviour_log_probs"


class _Part:
    """The environments from that number on, as an inspection of them alone asks for them."""

    agents = 1

    def __init__(self, collector: WorkersCollector, first: int) -> None:
        self._collector, self._first = collector, first

    @property
    def restart_reasons(self) -> list[str] | None:
        return self._collector.restart_reasons

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return self._collector.describe_episode(self._first + env, ago)


class AheadCollector(WorkersCollector):
    """Of fresh rollouts (`each`) every update gets one fragment of each worker, side by side, with the probabilities of
    the policies that acted. For a replay fragments come in the order in which they are done."""

    def __init__(
        self,
        crew: AheadCrew,
        job: RolloutJob,
        spaces: Spaces,
        agent: Agent,
        rng: Rng,
        new_guard: Callable[[], RowGuard],
        placed: Placed,
        order: FragmentOrder,
        ahead: Lookahead,
        *,
        each: bool,
    ) -> None:
        super().__init__(crew, job, spaces, agent, rng, new_guard(), placed)
        self._order, self._ahead, self._each = order, ahead, each
        self._seed_path = f"{rng.seed}{rng.path}"
        self._rows = 0
        self._steps = [0] * len(crew.slices)  # of each slice that were learned from
        self._fractions: dict[int, float] = {}  # of the run, by version
        self._log: list[FragmentRound] = []  # since the last report
        parts = [range(self._num_envs)] if each else crew.slices
        envs = np.arange(placed.first_env, placed.first_env + self._num_envs)
        self._inspections = [
            Inspection(_Part(self, part.start), new_guard(), envs[part.start : part.stop], spaces) for part in parts
        ]
        self._blocks: dict[tuple[int, int], Packer] = {}

    @property
    def env_steps(self) -> int:
        return self._rows * self.run_envs // self._num_envs

    def collect(self, steps: int) -> Batch:
        packer = self._block(-1, steps, self._num_envs)
        behaviour = torch.empty(steps, self._num_envs)
        for worker, columns in self._round(steps):
            own = self._crew.slices[worker]
            behaviour.numpy()[:, own.start : own.stop] = columns.pop(BEHAVIOUR)
            packer.write_columns(own.start, columns)
        self._forget_restarted()
        return self._inspections[0](packer).with_(behaviour_log_probs=behaviour)

    def fragments(self, steps: int) -> Iterator[tuple[int, Batch]]:
        """As they come, so `steps` of all environments together may be of a few of them."""
        for worker, columns in self._round(steps):
            own = self._crew.slices[worker]
            packer = self._block(worker, len(columns["rewards"]), len(own))
            packer.write_columns(0, columns)
            self._forget_restarted()
            yield own.start, self._inspections[worker](packer)

    def _round(self, steps: int) -> Iterator[tuple[int, State]]:
        """Whose, and the columns, which last until the next one."""
        self._publish()
        taken: list[FragmentTag] = []
        self._log.append(FragmentRound(self._version, self._seed_path, taken))
        for worker, request, answer in self._order.round(self._request, self._version, steps, each=self._each):
            sound = self._sound(worker, answer, request)
            self._check_tag(worker, sound["tag"], request)
            self._crew.keep(worker, sound)
            self._steps[worker] += request["steps"]
            self._rows += request["steps"] * len(self._crew.slices[worker])
            taken.append(FragmentTag(worker, request["version"], request["steps"]))
            yield worker, sound["columns"]

    def _request(self, version: int, steps: int) -> State:
        progress = self._fractions[version]
        return {"op": "collect", "steps": steps, "progress": progress, "version": version, "behaviour": self._each}

    def _check_tag(self, worker: int, tag: State, request: State) -> None:
        """That it follows the last fragment of this slice, so that none comes twice and none is missing."""
        expected = {"version": request["version"], "seed": self._seed_path, "first_step": self._steps[worker]}
        assert tag == expected, f"worker {worker} gave the fragment {tag}, and {expected} was to come"

    def _publish(self) -> None:
        self._version += 1
        self._fractions[self._version] = self._fraction
        self._fractions.pop(self._version - self._ahead.versions - 1, None)
        self._crew.backend.publish(self._version, self._newest_weights())

    def _block(self, part: int, steps: int, num_envs: int) -> Packer:
        packer = self._blocks.get((part, steps))
        if packer is None:
            packer = self._blocks[part, steps] = Packer(self._spaces, steps, num_envs)
        return packer

    def take(self) -> Tally:
        tally = together([inspection.take() for inspection in self._inspections])
        ages = [round.version - version for round in self._log for _, version, _ in round.fragments]
        staleness = {"rollout/staleness_mean": float(np.mean(ages)), "rollout/staleness_max": float(max(ages))}
        log, self._log = self._log, []
        return tally._replace(metrics={**(tally.metrics or {}), **(staleness if ages else {})}, fragments=log)

    def _forget_restarted(self) -> None:
        for env in self._crew.restarted:
            part = 0 if self._each else next(n for n, own in enumerate(self._crew.slices) if env in own)
            first = 0 if self._each else self._crew.slices[part].start
            self._inspections[part].forget(np.array([env - first]))
        self._crew.restarted = []

    def state_dict(self) -> State:
        """Fragments that are under way are no part of it: after a resume they are collected anew."""
        return {
            "version": self._version,
            "rows": self._rows,
            "steps": list(self._steps),
            "fragments": [[*round[:2], [list(tag) for tag in round.fragments]] for round in self._log],
            "slices": [state or {} for state in self._crew.states],
            "inspections": [inspection.state_dict() for inspection in self._inspections],
        }

    def load_state_dict(self, state: State) -> None:
        self._version, self._rows = int(state["version"]), int(state["rows"])
        self._steps = [int(steps) for steps in state["steps"]]
        self._log = [FragmentRound.from_json(one) for one in state["fragments"]]
        for inspection, own in zip(self._inspections, state["inspections"], strict=True):
            inspection.load_state_dict(own)
        if any(self._steps):
            self._crew.load([own or None for own in state["slices"]])
            self._forget_restarted()
