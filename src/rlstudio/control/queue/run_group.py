"""The runs of one command, side by side: the process that was called trains one after the other, and a worker takes
those of them for which cores are free. All of them are in the queue from the beginning, so that none is lost when the
first is interrupted."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from rlstudio.control.lifecycle import Desired
from rlstudio.control.queue import service
from rlstudio.control.runs.adopt import known_run
from rlstudio.control.runs.start import notify_of, requeue, take_session
from rlstudio.control.runs.stop import EndRequest
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import left, of_this_machine
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import Conflict
from rlstudio.core.run_state import OWNED, RunState
from rlstudio.experiment.run.session import Session

POLL_SECONDS = 0.3
WAKE_SECONDS = 5.0
"""A worker that died is replaced after so long."""

HOLD_SECONDS = 6.0
"""A run leaves within 5 s of the signal, saved or not."""


class RunGroup:
    def __init__(self, workspace: Workspace, runs: Sequence[RunRow]) -> None:
        self._workspace = workspace
        self._ids = [run.id for run in runs]
        self._wake_at = 0.0

    def rows(self) -> list[RunRow]:
        """The runs as they are now, in their order; those whose process is gone are recorded first."""
        self._workspace.reap()
        rows = {run.id: run for run in self._workspace.store.runs(ids=self._ids)}
        return [rows[run_id] for run_id in self._ids if run_id in rows]

    def going(self) -> list[RunRow]:
        """Those that have not ended: they run, wait in the queue, or wait to be tried again."""
        return [
            run
            for run in self.rows()
            if run.is_owned or run.state == RunState.QUEUED or (run.is_managed and run.may_retry)
        ]

    def share(self) -> None:
        """Let a worker take a part, where a second run has room beside the first."""
        queued = [run for run in self.rows() if run.state == RunState.QUEUED]
        running = self._workspace.store.runs(states=OWNED)
        free = left(of_this_machine(), [run for run in running if run.host == os.uname().nodename])
        if len(queued) > 1 and left(free, queued[:1]).fits(queued[1]):
            service.ensure_worker(self._workspace)

    def take(self) -> Session | None:
        """The next one that waits, in this process; None where none does."""
        queued = (run for run in self.rows() if run.state == RunState.QUEUED)
        return next(filter(None, (take_session(self._workspace, run) for run in queued)), None)

    def wait(self) -> None:
        """For a moment, while others train; a worker that is gone is replaced."""
        if time.monotonic() >= self._wake_at:
            service.ensure_worker(self._workspace)
            self._wake_at = time.monotonic() + WAKE_SECONDS
        time.sleep(POLL_SECONDS)

    def hold_back(self) -> list[RunRow]:
        """Pause those that have not ended, with a checkpoint; returns them. `resume` goes on with them."""
        going, requests = self.going(), []
        for run in going:
            with suppress(Conflict):  # it has ended meanwhile
                requests.append(EndRequest(self._workspace, run.id, Desired.STOP, pause=run.is_managed))
        until = time.monotonic() + HOLD_SECONDS
        while [request for request in requests if request.deliver().status.state in OWNED]:
            if time.monotonic() >= until:
                break
            time.sleep(POLL_SECONDS)
        return going


def requeue_group(
    workspace: Workspace,
    entries: Sequence[Entry],
    overrides: Sequence[str] = (),
    *,
    imports: Sequence[str] = (),
    notify: Sequence[str] = (),
    also_failed: bool = False,
) -> list[RunRow]:
    """Put the runs of a group that are not done back into the queue: the interrupted ones, with `overrides` (a longer
    training) the completed ones too; those that wait there already count as well. What refuses one of them holds back
    those that were queued before it."""
    resumable = {RunState.INTERRUPTED, RunState.QUEUED}
    resumable |= ({RunState.COMPLETED} if overrides else set()) | ({RunState.FAILED} if also_failed else set())
    chosen = [entry for entry in entries if entry.status.state in resumable]
    if not chosen:
        counts = Counter(entry.status.state.lower() for entry in entries)
        listed = ", ".join(f"{count} {state}" for state, count in counts.items())
        raise Conflict(
            f"none of the {len(entries)} runs is interrupted ({listed}); extend completed ones with train.epochs=N, try"
            " failed ones again with --state failed"
        )
    queued: list[RunRow] = []
    try:
        for entry in chosen:
            run = known_run(workspace, entry.id)
            if run.state == RunState.QUEUED and not overrides:
                notify_of(workspace, run, notify)
                queued.append(run)
            else:
                queued.append(requeue(workspace, run, overrides, imports=imports, notify=notify))
    except BaseException:
        RunGroup(workspace, queued).hold_back()
        raise
    return queued
