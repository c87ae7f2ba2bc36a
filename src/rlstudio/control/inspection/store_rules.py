"""The store: its file, and every run in the state that its history adds up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from sqlalchemy import Connection, select, text

from rlstudio.control.lifecycle import MOVES
from rlstudio.control.store.records import Event, RunRow
from rlstudio.control.store.schema import events
from rlstudio.control.workspace import Workspace
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.doctor.advice import Advice

RESTORE = "restore the store from a backup, or put it aside and take the runs in again with: rlctl adopt RUN_FOLDER"


def inspect_store(workspace: Workspace, looked_at: dict[str, int]) -> Iterator[Advice]:
    """Every problem of the tables, and every run whose history does not lead to its state."""
    with workspace.records.database.read() as connection:
        yield from _file_problems(connection)
    histories = _histories(workspace)
    runs = workspace.records.runs()
    looked_at |= {"runs": len(runs), "events": sum(map(len, histories.values()))}
    for run in runs:
        for problem in history_problems(run, histories.pop(run.id, [])):
            yield Advice("error", "history", f"run {run.id}: {problem}", RESTORE)
    for run_id in histories:
        yield Advice("error", "history", f"run {run_id}: has a history and no row", RESTORE)


def history_problems(run: RunRow, history: Sequence[Event]) -> Iterator[str]:
    """What a replay of the events says against the row."""
    if not history:
        yield "has no history"
        return
    versions = [event.version for event in history]
    if versions != list(range(1, len(history) + 1)):
        yield f"its history has a hole (events {versions[0]} to {versions[-1]}, {len(versions)} of them)"
    before: RunState | None = None
    for event in history:
        if event.state not in MOVES[before]:
            yield f"event {event.version} goes from {before or 'nothing'} to {event.state}, which no run can"
        before = event.state
    if any(earlier.token > later.token for earlier, later in pairwise(history)):
        yield "an older owner wrote after a newer one"
    last = history[-1]
    for name in ("version", "state", "reason", "message", "token"):
        mine, says = getattr(run, name), getattr(last, name)
        if mine != says:
            yield f"its {name} is {mine}, its history says {says}"


def _file_problems(connection: Connection) -> Iterator[Advice]:
    """What SQLite finds wrong with its own file; a server looks after its own."""
    if connection.dialect.name != "sqlite":
        return
    for (line,) in connection.execute(text("PRAGMA quick_check(10)")):
        if line != "ok":
            yield Advice("error", "store", f"the file of the store is damaged: {line}", RESTORE)
    for table, row, parent, _ in connection.execute(text("PRAGMA foreign_key_check")):
        yield Advice("error", "store", f"row {row} of {table} belongs to no {parent}", RESTORE)


def _histories(workspace: Workspace) -> dict[str, list[Event]]:
    """In one query: a store may hold thousands of runs."""
    query = select(events).order_by(events.c.run_id, events.c.version)
    with workspace.records.database.read() as connection:
        rows = connection.execute(query).mappings().all()
    return {
        run_id: [
            Event(each["version"], RunState(each["state"]), Reason(each["reason"]), each["message"], each["token"], "")
            for each in own
        ]
        for run_id, own in groupby(rows, key=lambda row: str(row["run_id"]))
    }
