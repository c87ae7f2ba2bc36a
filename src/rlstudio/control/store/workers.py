"""Which workers serve the store. A launch that finds none starts one; a worker leaves only while nothing is queued."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import delete, exists, insert, select, update

from rlstudio.control.store.database import Database
from rlstudio.control.store.schema import runs, workers
from rlstudio.core.run_state import RunState
from rlstudio.experiment.process import Owner, is_gone

if TYPE_CHECKING:
    from rlstudio.control.slots import Slots


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


class Workers:
    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, worker_id: str, process: Owner, slots: Slots) -> None:
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        values = {"id": worker_id, "started_at": moment, **asdict(process), **asdict(slots)}
        with self._database.write() as connection:
            connection.execute(insert(workers).values(**values))

    def beat(self, worker_id: str, throughput: float, queue_depth: int) -> None:
        values = {"heartbeat": workers.c.heartbeat + 1, "throughput": throughput, "queue_depth": queue_depth}
        with self._database.write() as connection:
            connection.execute(update(workers).where(workers.c.id == worker_id).values(**values))

    def alive(self) -> list[KnownWorker]:
        """Those that serve the store; one whose process is gone is forgotten. Waits for one that is just leaving, so
        that a run is never left with nobody to start it."""
        with self._database.write() as connection:
            rows = connection.execute(select(workers).with_for_update()).mappings().all()
            known = [
                KnownWorker(
                    row["id"],
                    Owner(row["host"], row["boot_id"], row["pid"], row["pid_start"]),
                    row["cpus"],
                    row["gpus"],
                    row["memory_mb"],
                    row["throughput"],
                    row["queue_depth"],
                    row["started_at"],
                )
                for row in rows
            ]
            gone = [worker.id for worker in known if is_gone(worker.process)]
            connection.execute(delete(workers).where(workers.c.id.in_(gone)))
        return [worker for worker in known if worker.id not in gone]

    def remove(self, worker_id: str) -> None:
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker_id))

    def remove_if_idle(self, worker_id: str, slots: Slots) -> bool:
        """Leave, unless something that could run here was queued this very moment."""
        fits = (runs.c.cpus <= slots.cpus) & (runs.c.gpus <= slots.gpus) & (runs.c.memory_mb <= slots.memory_mb)
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker_id))
            waiting = exists().where(runs.c.state == str(RunState.QUEUED), fits)
            queued = connection.execute(select(waiting)).scalar_one()
            if queued:
                connection.rollback()
            return not queued
