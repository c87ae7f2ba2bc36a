"""How the end of a run is recorded where it did not complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from rlstudio.core.contracts import Lease
from rlstudio.core.errors import (
    Conflict,
    EnvFault,
    LeaseLost,
    StorageError,
    UserError,
    message_of,
    origin_of,
    traceback_of,
)
from rlstudio.core.run_state import OWNED, Reason, RunState, end_of
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.run_writer import RunWriter
from rlstudio.experiment.run.signals import Interrupted, StopSignals
from rlstudio.experiment.training.culprit import with_culprit


def end_by(error: Exception, folder: RunFolder) -> tuple[RunState, Reason, str]:
    """State, reason and message. An error of other code (an environment, an algorithm, a sink) and a defect of ours
    leave their traceback among the artifacts, if the disk allows it."""
    state, reason = end_of(error)
    if has_traceback(error):
        with suppress(StorageError):
            folder.keep_traceback(traceback_of(error))
    if reason != Reason.INTERNAL:
        return state, reason, str(error)
    origin = origin_of(error)
    return state, reason, f"{type(error).__name__}: {message_of(error)}{f' at {origin}' if origin else ''}"


def has_traceback(error: Exception) -> bool:
    """Whether it says more than its message: a defect, or an environment's own exception."""
    caused = error.__cause__ is not None or bool(getattr(error, "__notes__", ()))
    return end_of(error)[1] == Reason.INTERNAL or (isinstance(error, EnvFault) and caused)


@contextmanager
def recording_end(writer: RunWriter, signals: StopSignals, env_id: str, save: Callable[[], None]) -> Iterator[None]:
    """Around the training of a run: a run that is stopped or left is saved and INTERRUPTED; an error is recorded as far
    as the disk allows, and raised in any case."""
    try:
        try:
            yield
        except (Interrupted, GeneratorExit) as stop:
            signals.is_ending = True
            save()
            reason = Reason.SIGNAL if isinstance(stop, Interrupted) else Reason.USER
            writer.set_state(RunState.INTERRUPTED, reason, f"go on with: rlctl resume {writer.folder.id}")
            raise
    except (Interrupted, LeaseLost):
        raise  # already recorded; or the lease was lost and this process may not write
    except (Exception, SystemExit) as error:
        blamed = with_culprit(error, env_id)
        with suppress(StorageError):
            writer.set_state(*end_by(blamed, writer.folder))
        if blamed is not error:
            raise blamed from error
        raise


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
