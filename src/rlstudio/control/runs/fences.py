"""What is looked at inside the transaction of a change, and may forbid it there.

`unchanged`: the run is still what somebody looked at. Its ETag differs after every move in the life of the run and
after every change by a user; it stays the same while the run trains, so that what was decided by a look at it can be
asked for some seconds later.

`once`: nobody has made this change under the same key. The key is kept in the same transaction, so that whoever was
killed in between finds either both or neither.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import insert

from rlstudio.control.store.moves import get_run, run_of_key
from rlstudio.control.store.schema import keys
from rlstudio.core.errors import Changed

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from rlstudio.control.store.records import RunRow
    from rlstudio.control.store.store import Fence
    from rlstudio.control.workspace import Entry


def etag_of(entry: Entry) -> str:
    """Of a run that only its folder knows, the state is all that may change."""
    return row_etag(entry.run) if entry.run is not None else _digest(["folder", entry.status.state])


def row_etag(run: RunRow) -> str:
    return _digest([run.version, run.desired, list(run.tags), run.note, run.priority, run.config_hash])


def unchanged(run_id: str, etag: str | None) -> Fence:
    """For a change of the store: refuses it inside its transaction where the run is not what was looked at any more;
    with None it refuses nothing."""

    def fence(connection: Connection) -> None:
        if etag is None:
            return
        run = get_run(connection, run_id, lock=True)
        if row_etag(run) != etag:
            raise Changed(f"run {run_id}: has changed since it was looked at; it is {run.state} now")

    return fence


class DoneBefore(Exception):
    """The change that a key stands for was made by an earlier request."""


def once(run_id: str, key: str | None, fence: Fence) -> Fence:
    """`fence`, and then the key. Raises DoneBefore inside the transaction where the key was kept by an earlier one;
    without a key it is `fence`."""

    def guarded(connection: Connection) -> None:
        if key is None:
            fence(connection)
            return
        get_run(connection, run_id, lock=True)  # of two requests with one key the second waits here
        if run_of_key(connection, key) is not None:
            raise DoneBefore
        fence(connection)
        connection.execute(insert(keys).values(key=key, run_id=run_id))

    return guarded


def _digest(facts: list[object]) -> str:
    return sha256(json.dumps(facts).encode()).hexdigest()[:16]
