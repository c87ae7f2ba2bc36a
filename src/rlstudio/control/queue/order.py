"""The order of the queue, as its user wants it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select

from rlstudio.control.store.database import Database
from rlstudio.control.store.moves import get_run, update_run
from rlstudio.control.store.schema import runs
from rlstudio.core.errors import Conflict
from rlstudio.core.run_state import RunState


def put_first(database: Database, run_ids: Sequence[str]) -> None:
    """Give queued runs priorities by which they start first, in this order; those of others stay. To ask for the same
    order again changes nothing."""
    with database.write() as connection:
        moved = [get_run(connection, run_id, lock=True) for run_id in run_ids]
        for run in moved:
            if run.state != RunState.QUEUED:
                raise Conflict(f"run {run.id}: is {run.state}, and only queued runs have an order")
        waiting = (runs.c.state == str(RunState.QUEUED)) & runs.c.id.not_in(run_ids)
        highest = connection.execute(select(func.max(runs.c.priority)).where(waiting)).scalar()
        for place, run in enumerate(reversed(moved), start=1):
            update_run(connection, run, priority=(highest or 0) + place)
