"""Stop, pause or cancel a run: the store records the request, and a signal makes the run's process read it at once."""

from __future__ import annotations

import os
import signal

from rlstudio.control.lifecycle import Desired
from rlstudio.control.runs.adopt import adopt
from rlstudio.control.store.store import Fence
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import Conflict, UserError
from rlstudio.core.host import process
from rlstudio.core.host.process import Owner
from rlstudio.core.run_state import OWNED


class EndRequest:
    """A request that a run end, recorded in the store. `deliver` sends it to the process that owns the run; that may be
    called again and again: each process gets one signal, since a second one ends a run without a checkpoint."""

    def __init__(
        self,
        workspace: Workspace,
        run_id: str,
        desired: Desired,
        *,
        pause: bool = False,
        fence: Fence = lambda connection: None,
    ) -> None:
        """`pause`: with `Desired.STOP`, the run keeps its place in the queue. `fence` raises inside the transaction
        where this may not be asked for any more."""
        self.has_signal = True  # False once a signal could not be sent: the run then ends at its next heartbeat
        self._workspace = workspace
        self._run_id = run_id
        self._signalled: set[Owner] = set()
        workspace.reap()
        entry = workspace.find(run_id)
        if pause:
            _refuse_without_queue(entry)
            workspace.store.pause(run_id, fence)
            return
        if entry.run is None and desired == Desired.STOP:
            _refuse_unreachable(entry)
            return
        if entry.run is None:
            adopt(workspace, entry.folder)  # only the store knows cancelled runs; refused while it runs
        workspace.store.ask(run_id, desired, fence)

    def deliver(self) -> Entry:
        """Signal the process that owns the run now, if it has had no signal yet; returns the run as it is. If its
        process is gone, that is recorded first."""
        self._workspace.reap()
        entry = self._workspace.find(self._run_id)
        status = entry.status
        owner = status.process
        # Until a run has a process of its own, its owner is the worker that starts it, which must not stop.
        has_process = entry.run is None or entry.run.has_process
        if status.state in OWNED and has_process and owner not in self._signalled:
            self._signalled.add(owner)
            self.has_signal = _signal(entry, owner)
        return entry


def _refuse_without_queue(entry: Entry) -> None:
    """A run that only its folder records is none of the queue."""
    if entry.run is None and entry.status.state in OWNED:
        raise Conflict(
            f"run {entry.id}: trains without the store, so it has no place in the queue to keep; end it with:"
            f" rlctl stop {entry.id}"
        )
    if entry.run is None:
        raise Conflict(f"run {entry.id}: is {entry.status.state}; there is nothing to pause")


def _refuse_unreachable(entry: Entry) -> None:
    """A run that only its folder records can be stopped by a signal, and by nothing else."""
    status = entry.status
    if status.state not in OWNED:
        raise Conflict(f"run {entry.id}: is {status.state}; there is nothing to stop")
    if status.host != os.uname().nodename:
        raise UserError(f"run {entry.id}: runs on {status.host} without the store; stop it there")
    if status.pid == os.getpid():
        raise UserError(f"run {entry.id}: runs in this process without the store; end it by leaving its loop")


def _signal(entry: Entry, owner: Owner) -> bool:
    """Send SIGTERM. False where it does not reach the process, which then reads the request from the store."""
    # A run in another thread of this process: a signal would stop the whole program.
    if owner.host != os.uname().nodename or owner == process.this_process():
        return False
    try:
        return process.send(owner, signal.SIGTERM)
    except PermissionError as error:
        if entry.run is None:
            raise UserError(f"run {entry.id}: its process belongs to another user, who alone can stop it") from error
        return False
