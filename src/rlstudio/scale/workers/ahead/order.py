"""Which fragments make an update: those that come, or those of a log.

each    one of every worker: an update of fresh rollouts. A fragment is as old as the workers are ahead
any     whoever is first, as many rows as are due: a replay. A fragment that would become too old is waited for
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from rlstudio.core.contracts import FragmentTag, State
from rlstudio.core.errors import UserError
from rlstudio.scale.workers.ahead.crew import AheadCrew, Arrived
from rlstudio.scale.workers.backends import Lookahead

RequestOf = Callable[[int, int], State]
"""(version, steps) -> what a worker is asked."""


class FragmentOrder(Protocol):
    def round(self, request_of: RequestOf, version: int, steps: int, *, each: bool) -> Iterator[Arrived]:
        """The fragments of one update, whose weights are of this version: one of each worker, or as many rows as that
        would be. Each may be used until the next one is asked for."""
        ...


class AsTheyCome:
    def __init__(self, crew: AheadCrew, ahead: Lookahead) -> None:
        self._crew, self._ahead = crew, ahead

    def round(self, request_of: RequestOf, version: int, steps: int, *, each: bool) -> Iterator[Arrived]:
        crew, request, workers = self._crew, request_of(version, steps), range(len(self._crew.slices))
        for worker in workers:
            while len(crew.open_requests(worker)) < self._ahead.fragments:
                crew.ask_for(worker, request)
        missing, rows = list(workers), steps * crew.slices[-1].stop
        while missing if each else (late := self._late(version)) or rows > 0:
            arrived = crew.arrival(missing if each else late or workers)
            rows -= arrived.request["steps"] * len(crew.slices[arrived.worker])
            if each:
                missing.remove(arrived.worker)
            yield arrived
            crew.ask_for(arrived.worker, request)

    def _late(self, version: int) -> list[int]:
        """Workers whose fragment would be too old in the next round."""
        oldest = version - self._ahead.versions
        return [
            worker
            for worker in range(len(self._crew.slices))
            if self._crew.open_requests(worker)[0]["version"] <= oldest
        ]


class AsLogged:
    """The fragments of an earlier run, each collected anew when it is due."""

    def __init__(self, crew: AheadCrew, rounds: Mapping[int, Sequence[FragmentTag]]) -> None:
        self._crew, self._rounds = crew, rounds

    def round(self, request_of: RequestOf, version: int, steps: int, *, each: bool) -> Iterator[Arrived]:
        if version not in self._rounds:
            raise UserError(f"the log of fragments has none for round {version}; the run that wrote it did not go on")
        for tag in self._rounds[version]:
            self._crew.ask_for(tag.worker, request_of(tag.version, tag.steps))
            yield self._crew.arrival([tag.worker])
