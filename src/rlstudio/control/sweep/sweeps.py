"""Sweeps and their trials in the store. Each method is one transaction; what drives a sweep passes its token."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from rlstudio.control.lifecycle import Desired
from rlstudio.control.store.database import Database
from rlstudio.control.store.schema import runs
from rlstudio.control.store.sweep_tables import sweeps, trials
from rlstudio.core.errors import Conflict, LeaseLost, UnknownName, suggest
from rlstudio.core.host.process import Owner, is_gone
from rlstudio.core.run_state import Reason, RunState
from rlstudio.core.timestamps import timestamp


class SweepState(StrEnum):
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    COMPLETED = "COMPLETED"
    INTERRUPTED = "INTERRUPTED"
    """RUNNING in the store, and the process that drives it is gone. Only concluded, never written."""


class SweepStopped(LeaseLost):
    """The user stopped the sweep while this process drove it."""


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
        return self.current == SweepState.RUNNING

    @property
    def current(self) -> SweepState:
        """The state as it is now, whether or not a process that was killed could record it."""
        is_lost = self.state == SweepState.RUNNING and is_gone(self.process)
        return SweepState.INTERRUPTED if is_lost else self.state


@dataclass(frozen=True)
class Trial:
    """One choice of parameters, and what came of it so far."""

    number: int
    params: Mapping[str, object]
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

    def pulse(self, name: str) -> tuple[int, int, int]:
        """Count and summed versions of its runs, and its token: differs after every change of a run and once another
        process has it; cheap enough to poll."""
        token = select(sweeps.c.token).where(sweeps.c.name == name).scalar_subquery()
        counted = select(func.count(), func.coalesce(func.sum(runs.c.version), 0), func.coalesce(token, 0))
        with self._database.read() as connection:
            count, versions, token_now = connection.execute(counted.where(runs.c.sweep == name)).one()
            return int(count), int(versions), int(token_now)

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
        """Drive a sweep on, with the runs that were paused. One that another process drives is left to it, unless it is
        taken over."""
        with self._database.write() as connection:
            return _take(connection, _get(connection, name, lock=True), owner, take_over)

    def refuse_driven(self, name: str, *, take_over: bool = False) -> None:
        """Refuse a sweep that another process drives, as `claim` does, without changing anything."""
        if not take_over:
            _refuse_driven(self.get(name))

    def assign(self, name: str, owner: Owner, *, take_over: bool = False) -> Sweep:
        """The same for a process that was just started to drive it, which may have claimed it meanwhile, or even have
        brought it to its end."""
        with self._database.write() as connection:
            sweep = _get(connection, name, lock=True)
            return sweep if sweep.process == owner else _take(connection, sweep, owner, take_over)

    def stop(self, name: str) -> Sweep:
        """Take a sweep from whoever drives it: that process decides nothing more and starts no run. Nothing happens to
        one that is stopped."""
        with self._database.write() as connection:
            sweep = _get(connection, name, lock=True)
            if sweep.state == SweepState.COMPLETED:
                raise Conflict(f"sweep {name}: is COMPLETED; there is nothing to stop")
            if sweep.state == SweepState.RUNNING:
                values = {"state": str(SweepState.STOPPED), "token": sweep.token + 1, "updated_at": timestamp()}
                connection.execute(update(sweeps).where(sweeps.c.name == name).values(**values))
            return _get(connection, name)

    def remove(self, sweep: Sweep) -> None:
        """Delete a sweep and its trials; its runs are removed before."""
        with self._database.write() as connection:
            self._fence(connection, sweep, {})
            connection.execute(delete(sweeps).where(sweeps.c.name == sweep.name))

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

    def fence(self, sweep: Sweep) -> Callable[[Connection], None]:
        """For a change of the store that only the driver may make: raises inside its transaction where the sweep is not
        this driver's any more."""
        return lambda connection: self._fence(connection, sweep, {})

    def refuse_lost(self, sweep: Sweep, token: int) -> None:
        """Raise where this token, read from the store, says that the sweep is not this driver's any more."""
        if token != sweep.token:
            with self._database.read() as connection:
                raise _lost(connection, sweep)

    def _fence(self, connection: Connection, sweep: Sweep, values: Mapping[str, object]) -> None:
        ours = (sweeps.c.name == sweep.name) & (sweeps.c.token == sweep.token)
        if connection.execute(update(sweeps).where(ours).values(updated_at=timestamp(), **values)).rowcount != 1:
            raise _lost(connection, sweep)


def _lost(connection: Connection, sweep: Sweep) -> LeaseLost:
    """Why a driver may do nothing more."""
    state = connection.execute(select(sweeps.c.state).where(sweeps.c.name == sweep.name)).scalar_one_or_none()
    if state is None:
        return LeaseLost(f"sweep {sweep.name}: was removed; deciding nothing more")
    if state == SweepState.STOPPED:
        return SweepStopped(f"sweep {sweep.name}: was stopped; go on with: rlctl sweep --resume {sweep.name}")
    return LeaseLost(f"sweep {sweep.name}: was taken over by another process; deciding nothing more")


def _refuse_driven(sweep: Sweep) -> None:
    if sweep.is_driven:
        raise Conflict(
            f"sweep {sweep.name}: process {sweep.process.pid} on {sweep.process.host} drives it;"
            " if that is gone, go on with --take-over"
        )


def _take(connection: Connection, sweep: Sweep, owner: Owner, take_over: bool) -> Sweep:
    if sweep.process != owner and not take_over:
        _refuse_driven(sweep)
    _release(connection, sweep.name)
    values = {"state": str(SweepState.RUNNING), "token": sweep.token + 1, "updated_at": timestamp(), **asdict(owner)}
    connection.execute(update(sweeps).where(sweeps.c.name == sweep.name).values(**values))
    return _get(connection, sweep.name)


def _release(connection: Connection, name: str) -> None:
    """Paused runs wait for their sweep from now on, which lets them go on as it has room. One that is on its way there
    would wait for its user, for ever."""
    paused = (runs.c.sweep == name) & (runs.c.reason == str(Reason.PAUSED))
    stopping = select(runs.c.id).where(paused, runs.c.state == str(RunState.STOPPING)).limit(1)
    run_id = connection.execute(stopping).scalar_one_or_none()
    if run_id is not None:
        raise Conflict(f"sweep {name}: run {run_id} is still stopping; try again once it has: rlctl show {run_id}")
    waiting = paused & (runs.c.state == str(RunState.INTERRUPTED)) & (runs.c.desired == str(Desired.STOP))
    connection.execute(update(runs).where(waiting).values(desired=str(Desired.RUN), updated_at=timestamp()))


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


def _sweep(row: RowMapping) -> Sweep:
    process = Owner.from_record(row)
    state, deterministic = SweepState(row["state"]), bool(row["deterministic"])
    return Sweep(row["name"], row["config"], state, deterministic, row["created_at"], row["token"], process)


def _trial(row: RowMapping) -> Trial:
    results = {
        int(epoch): {int(seed): float(value) for seed, value in values.items()}
        for epoch, values in json.loads(row["results"]).items()
    }
    values = {entry.name: row[entry.name] for entry in fields(Trial)}
    values |= {"params": json.loads(row["params"]), "results": results, "state": TrialState(row["state"])}
    return Trial(**values)


def _columns(name: str, trial: Trial) -> dict[str, object]:
    values = {entry.name: getattr(trial, entry.name) for entry in fields(Trial)}
    encoded = {
        "params": json.dumps(dict(trial.params)),
        "results": json.dumps(trial.results),
        "state": str(trial.state),
    }
    return {**values, **encoded, "sweep": name, "updated_at": timestamp()}
