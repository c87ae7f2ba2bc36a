"""Which workers serve the store. A launch that finds none starts one; a worker leaves only while nothing is queued.

A process that can be looked up here is judged by boot, pid and start time, at once and for certain. One of another host
or PID namespace is judged by its heartbeat, as runs are: unchanged for `SILENT_SECONDS` on our own clock, it is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import RowMapping, delete, exists, insert, select, update

from rlstudio.control.store.database import Database
from rlstudio.control.store.schema import runs, workers
from rlstudio.core.host.process import Owner, is_gone, is_here
from rlstudio.core.run_state import RunState

if TYPE_CHECKING:
    from rlstudio.control.store.resources import Slots

SILENT_SECONDS = 16.0
"""A little over three heartbeats: a worker of another host whose heartbeat stands still for so long is gone."""


@dataclass(frozen=True)
class KnownWorker:
    id: str
    process: Owner
    cpus: int
    gpus: int
    memory_mb: int
    throughput: float
    queue_depth: int
    started_at: str
    is_certain: bool  # it can be looked up here, or its heartbeat was observed to change


@dataclass(frozen=True)
class _Heartbeat:
    heartbeat: int
    since: float
    has_beaten: bool


class Workers:
    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        """One that is kept observes heartbeats; a new one knows only which workers are registered."""
        self._database = database
        self._clock = clock
        self._heartbeats: dict[str, _Heartbeat] = {}

    def register(self, worker_id: str, process: Owner, slots: Slots) -> None:
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        values = {"id": worker_id, "started_at": moment, **asdict(process), **asdict(slots)}
        with self._database.write() as connection:
            connection.execute(insert(workers).values(**values))

    def beat(self, worker_id: str, throughput: float, queue_depth: int) -> bool:
        """False where its row was deleted: it was frozen, and others took it to be gone."""
        values = {"heartbeat": workers.c.heartbeat + 1, "throughput": throughput, "queue_depth": queue_depth}
        with self._database.write() as connection:
            return connection.execute(update(workers).where(workers.c.id == worker_id).values(**values)).rowcount == 1

    def alive(self) -> list[KnownWorker]:
        """Those that serve the store; the rows of those that are gone are deleted. Waits for one that is just leaving,
        so that a run is never left without a worker."""
        with self._database.write() as connection:
            alive, gone = self._alive_and_gone(connection.execute(select(workers).with_for_update()).mappings().all())
            connection.execute(delete(workers).where(workers.c.id.in_([worker.id for worker in gone])))
        return alive

    def listed(self) -> list[KnownWorker]:
        """Those that serve the store, without changing it: no row is deleted, and none is waited for."""
        with self._database.read() as connection:
            return self._alive_and_gone(connection.execute(select(workers)).mappings().all())[0]

    def _alive_and_gone(self, rows: Sequence[RowMapping]) -> tuple[list[KnownWorker], list[KnownWorker]]:
        """Those that are there and those that are gone."""
        self._heartbeats = {row["id"]: self._observe(row) for row in rows}
        known = [
            KnownWorker(
                row["id"],
                Owner.from_record(row),
                row["cpus"],
                row["gpus"],
                row["memory_mb"],
                row["throughput"],
                row["queue_depth"],
                row["started_at"],
                is_here(Owner.from_record(row)) or self._heartbeats[row["id"]].has_beaten,
            )
            for row in rows
        ]
        gone = [worker for worker in known if is_gone(worker.process) or self._is_silent(worker)]
        return [worker for worker in known if worker not in gone], gone

    def _observe(self, row: RowMapping) -> _Heartbeat:
        before, now = self._heartbeats.get(row["id"]), self._clock()
        if before is None or before.heartbeat != row["heartbeat"]:
            return _Heartbeat(row["heartbeat"], now, before is not None)
        return before

    def _is_silent(self, worker: KnownWorker) -> bool:
        silent = self._clock() - self._heartbeats[worker.id].since >= SILENT_SECONDS
        return silent and not is_here(worker.process)

    def remove(self, worker_id: str) -> None:
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker_id))

    def remove_if_idle(self, worker_id: str, never: Sequence[str]) -> bool:
        """Remove the row of a worker, unless another run is queued than those that it can `never` start; returns
        whether it was removed."""
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker_id))
            waiting = exists().where(runs.c.state == str(RunState.QUEUED), runs.c.id.not_in(never))
            queued = connection.execute(select(waiting)).scalar_one()
            if queued:
                connection.rollback()
            return not queued
