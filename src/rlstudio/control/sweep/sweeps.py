"""Sweeps and their trials in the store. Each method is one transaction; what drives a sweep passes its token."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from rlstudio.control.store.database import Database
from rlstudio.control.store.schema import runs
from rlstudio.control.store.sweep_tables import sweeps, trials
from rlstudio.core.errors import Conflict, LeaseLost, UnknownName, suggest
from rlstudio.core.process import Owner, is_gone
from rlstudio.core.timestamps import timestamp


class SweepState(StrEnum):
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    COMPLETED = "COMPLETED"


class TrialState(StrEnum):
    RUNNING = "RUNNING"
    PRUNED = "PRUNED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Sweep:
    name: str
    config: str
    state: SweepState
    deterministic: bool
    created_at: str
    token: int
    process: Owner

    @property
    def is_driven(self) -> bool:
        """Whether a process has it that is not known to be gone."""
        return self.state == SweepState.RUNNING and not is_gone(self.process)


@dataclass(frozen=True)
class Trial:
    """One choice of parameters, and what came of it so far."""

    number: int
    params: Mapping[str, Any]
    target: int  # the epoch its runs are to reach
    state: TrialState = TrialState.RUNNING
    results: Mapping[int, Mapping[int, float]] = field(default_factory=dict)  # epoch -> seed -> value
    score: float | None = None
    bracket: int = 0
    parent: int | None = None
    message: str = ""

    @property
    def is_live(self) -> bool:
        return self.state == TrialState.RUNNING

    @property
    def has_reached_target(self) -> bool:
        """Whether its runs have reached its target."""
        return self.target in self.results


class Sweeps:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- reading ----------------------------------------------------------------------------------------------------

    def all(self) -> list[Sweep]:
        """Newest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(sweeps).order_by(sweeps.c.created_at.desc(), sweeps.c.name)).mappings()
            return [_sweep(row) for row in rows.all()]

    def get(self, name: str) -> Sweep:
        with self._database.read() as connection:
            return _get(connection, name)

    def trials(self, name: str) -> list[Trial]:
        """In the order of their numbers."""
        query = select(trials).where(trials.c.sweep == name).order_by(trials.c.number)
        with self._database.read() as connection:
            return [_trial(row) for row in connection.execute(query).mappings().all()]

    def pulse(self, name: str) -> tuple[int, int]:
        """Count and summed versions of its runs: differs after every change of one; cheap enough to poll."""
        query = select(func.count(), func.coalesce(func.sum(runs.c.version), 0)).where(runs.c.sweep == name)
        with self._database.read() as connection:
            count, versions = connection.execute(query).one()
            return int(count), int(versions)

    # -- driving ----------------------------------------------------------------------------------------------------

    def create(self, name: str, config: str, owner: Owner, *, deterministic: bool = False) -> Sweep:
        """A new sweep, driven by this process."""
        values = {"name": name, "config": config, "state": str(SweepState.RUNNING), "deterministic": deterministic}
        values |= {"created_at": timestamp(), "updated_at": timestamp(), "token": 1, **asdict(owner)}
        try:
            with self._database.write() as connection:
                connection.execute(insert(sweeps).values(**values))
                return _get(connection, name)
        except IntegrityError as error:
            raise Conflict(
                f"sweep {name}: is there already; go on with: rlctl sweep --resume {name}, or choose another name"
            ) from error

    def claim(self, name: str, owner: Owner, *, take_over: bool = False) -> Sweep:
        """Drive a sweep on. One that another process drives is left to it, unless it is taken over."""
        with self._database.write() as connection:
            sweep = _get(connection, name, lock=True)
            if sweep.is_driven and sweep.process != owner and not take_over:
                raise Conflict(
                    f"sweep {name}: process {sweep.process.pid} on {sweep.process.host} drives it;"
                    " if that is gone, go on with --take-over"
                )
            values = {
                "state": str(SweepState.RUNNING),
                "token": sweep.token + 1,
                "updated_at": timestamp(),
                **asdict(owner),
            }
            connection.execute(update(sweeps).where(sweeps.c.name == name).values(**values))
            return _get(connection, name)

    def write(self, sweep: Sweep, changed: Sequence[Trial]) -> None:
        """Replace these trials, or add them where they are new: all of them, or nothing."""
        with self._database.write() as connection:
            self._fence(connection, sweep, {})
            numbers = [trial.number for trial in changed]
            connection.execute(delete(trials).where((trials.c.sweep == sweep.name) & trials.c.number.in_(numbers)))
            connection.execute(insert(trials), [_columns(sweep.name, trial) for trial in changed])

    def end(self, sweep: Sweep, state: SweepState) -> None:
        """Record that it is over, or that no process drives it any more."""
        with self._database.write() as connection:
            self._fence(connection, sweep, {"state": str(state)})

    def _fence(self, connection: Connection, sweep: Sweep, values: Mapping[str, Any]) -> None:
        ours = (sweeps.c.name == sweep.name) & (sweeps.c.token == sweep.token)
        if connection.execute(update(sweeps).where(ours).values(updated_at=timestamp(), **values)).rowcount != 1:
            raise LeaseLost(f"sweep {sweep.name}: was taken over by another process; deciding nothing more")


def _get(connection: Connection, name: str, lock: bool = False) -> Sweep:
    query = select(sweeps).where(sweeps.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
    if row is None:
        known = [str(other) for other in connection.execute(select(sweeps.c.name)).scalars()]
        hint = suggest(name, known) or (
            f"; there are: {', '.join(sorted(known)[:10])}" if known else "; there are none"
        )
        raise UnknownName(f"sweep {name!r}: not in the store{hint}")
    return _sweep(row)


def _sweep(row: Mapping[Any, Any]) -> Sweep:
    process = Owner.from_record(row)
    state, deterministic = SweepState(row["state"]), bool(row["deterministic"])
    return Sweep(row["name"], row["config"], state, deterministic, row["created_at"], row["token"], process)


def _trial(row: Mapping[Any, Any]) -> Trial:
    results = {
        int(epoch): {int(seed): float(value) for seed, value in values.items()}
        for epoch, values in json.loads(row["results"]).items()
    }
    values = {entry.name: row[entry.name] for entry in fields(Trial)}
    values |= {"params": json.loads(row["params"]), "results": results, "state": TrialState(row["state"])}
    return Trial(**values)


def _columns(name: str, trial: Trial) -> dict[str, Any]:
    values = {entry.name: getattr(trial, entry.name) for entry in fields(Trial)}
    encoded = {
        "params": json.dumps(dict(trial.params)),
        "results": json.dumps(trial.results),
        "state": str(trial.state),
    }
    return {**values, **encoded, "sweep": name, "updated_at": timestamp()}
