"""How a run that ends by an error is recorded."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from rlstudio.core.contracts import Lease
from rlstudio.core.errors import Conflict, LeaseLost, StorageError, UserError
from rlstudio.core.run_state import OWNED, Reason, RunState, end_of
from rlstudio.experiment.folder.run_folder import RunFolder


def end_by(error: Exception, folder: RunFolder) -> tuple[RunState, Reason, str]:
    """State, reason and message. A defect of ours leaves its traceback among the artifacts, if the disk allows it."""
    state, reason = end_of(error)
    if reason != Reason.INTERNAL:
        return state, reason, str(error)
    with suppress(StorageError):
        folder.keep_traceback("".join(traceback.format_exception(error)))
    return state, reason, f"{type(error).__name__}: {error}"


@contextmanager
def recording_failed_opening(folder: RunFolder, lease: Lease) -> Iterator[None]:
    """Until a session trains, nobody but its opener can record that it failed. Only where a run that had ended is
    refused by a mistake of the user (another machine, an edited config), the run stays as it was."""
    try:
        yield
    except LeaseLost:
        raise  # another process has the run: this one may not write
    except Exception as error:
        with suppress(LeaseLost, Conflict, StorageError):
            status = folder.read_status()
            if status.state in OWNED or not isinstance(error, UserError):
                state, reason, message = end_by(error, folder)
                state, reason = lease.move(state, reason, message, status.facts())
                folder.write_status(replace(status, state=state, reason=reason, message=message))
        raise
