"""What can be asked of the store. Nothing here changes anything."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, cast

from sqlalchemy import func, or_, select

from rlstudio.control.lifecycle import RETRIED, Desired
from rlstudio.control.store.database import Database
from rlstudio.control.store.moves import EVERY_RUN, get_run, run_of_key, unknown_run
from rlstudio.control.store.records import Checkpoint, Consent, Event, RunRow, naming_damage
from rlstudio.control.store.schema import checkpoints, events, runs
from rlstudio.core.run_state import Reason, RunState

if TYPE_CHECKING:
    from rlstudio.experiment.lineage.lineage import Lineage


class StoreReader:
    """The half of `Store` that only looks."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def get(self, run_id: str) -> RunRow:
        with self.database.read() as connection:
            return get_run(connection, run_id)

    def runs(
        self,
        *,
        states: Collection[RunState] | None = None,
        ids: Collection[str] | None = None,
        name: str | None = None,
        parent: str | None = None,
        sweep: str | None = None,
        limit: int | None = None,
    ) -> list[RunRow]:
        """Newest first."""
        query = EVERY_RUN.order_by(runs.c.seq.desc()).limit(limit)
        if states is not None:
            query = query.where(runs.c.state.in_([str(state) for state in states]))
        if ids is not None:
            query = query.where(runs.c.id.in_(ids))
        if name is not None:
            query = query.where(runs.c.name == name)
        if parent is not None:
            query = query.where(runs.c.parent_id == parent)
        if sweep is not None:
            query = query.where(runs.c.sweep == sweep)
        with self.database.read() as connection:
            return [RunRow.from_row(row) for row in connection.execute(query).mappings()]

    def retryable(self) -> list[RunRow]:
        """Runs of the queue that ended in a way that may go away by itself, and have tries left; oldest first."""
        ends = [(runs.c.state == str(state)) & runs.c.reason.in_(map(str, why)) for state, why in RETRIED.items()]
        wanted = (runs.c.failures <= runs.c.max_retries) & (runs.c.desired == str(Desired.RUN))
        query = EVERY_RUN.where(or_(*ends), runs.c.is_managed, wanted)
        with self.database.read() as connection:
            return [RunRow.from_row(row) for row in connection.execute(query.order_by(runs.c.seq)).mappings()]

    def paused(self) -> list[RunRow]:
        """Runs that their users paused, oldest first."""
        ended = (runs.c.state == str(RunState.INTERRUPTED)) & (runs.c.reason == str(Reason.PAUSED))
        query = EVERY_RUN.where(ended, runs.c.desired == str(Desired.STOP)).order_by(runs.c.seq)
        with self.database.read() as connection:
            return [RunRow.from_row(row) for row in connection.execute(query).mappings()]

    def ids(self) -> set[str]:
        with self.database.read() as connection:
            return set(connection.execute(select(runs.c.id)).scalars())

    def names(self) -> list[tuple[str, str]]:
        """Id and name of every run, oldest first."""
        with self.database.read() as connection:
            query = select(runs.c.id, runs.c.name).order_by(runs.c.seq)
            return [(run_id, name) for run_id, name in connection.execute(query)]

    def count(self) -> int:
        with self.database.read() as connection:
            return connection.execute(select(func.count()).select_from(runs)).scalar_one()

    def config_yaml(self, run_id: str) -> str:
        return self._large(run_id, "config_yaml")

    def lineage(self, run_id: str) -> Lineage:
        text = self._large(run_id, "lineage")
        with naming_damage(run_id):
            return cast("Lineage", dict(json.loads(text)))

    def run_of_key(self, key: str) -> RunRow | None:
        """The run that a key stands for, if it has been used."""
        with self.database.read() as connection:
            return run_of_key(connection, key)

    def consent(self, run_id: str) -> Consent:
        """What the user let a run import: nothing, for one that was not launched here."""
        query = select(runs.c.imports, runs.c.import_path).where(runs.c.id == run_id)
        with self.database.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise unknown_run(run_id)
        with naming_damage(run_id):
            return Consent.from_columns(*row)

    def launched_here(self, run_id: str) -> bool:
        """Whether the run began in this store; one that was adopted began with a random token."""
        query = select(events.c.token).where(events.c.run_id == run_id).order_by(events.c.version).limit(1)
        with self.database.read() as connection:
            return connection.execute(query).scalar_one_or_none() == 0

    def _large(self, run_id: str, column: Literal["config_yaml", "lineage"]) -> str:
        with self.database.read() as connection:
            value = connection.execute(select(runs.c[column]).where(runs.c.id == run_id)).scalar_one_or_none()
        if value is None:
            raise unknown_run(run_id)
        return str(value)

    def events(self, run_id: str) -> list[Event]:
        """The history, oldest first."""
        query = select(events).where(events.c.run_id == run_id).order_by(events.c.version)
        with self.database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [
            Event(
                row["version"], RunState(row["state"]), Reason(row["reason"]), row["message"], row["token"], row["at"]
            )
            for row in rows
        ]

    def checkpoints(self, run_id: str) -> list[Checkpoint]:
        """Newest first."""
        query = select(checkpoints).where(checkpoints.c.run_id == run_id).order_by(checkpoints.c.step.desc())
        with self.database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [Checkpoint(row["step"], row["state_hash"], row["manifest_sha256"], row["token"]) for row in rows]

    def token(self, run_id: str) -> int | None:
        """The number of the present ownership; None for a run that is not there."""
        with self.database.read() as connection:
            return connection.execute(select(runs.c.token).where(runs.c.id == run_id)).scalar_one_or_none()
