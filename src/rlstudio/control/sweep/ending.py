"""Stop a sweep with its runs, or remove it with them. Each step is one change of the store or of a folder, in an order
in which a kill between two of them leaves a sweep that the same command, or `--resume`, goes on with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from rlstudio.control.lifecycle import Desired
from rlstudio.control.runs.remove import refuse_referred, remove
from rlstudio.control.runs.stop import EndRequest
from rlstudio.control.sweep.background import remove_log
from rlstudio.control.sweep.driver import is_active
from rlstudio.control.sweep.sweeps import Sweep, Sweeps, SweepState
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import Conflict, RLStudioError, RunNotFound
from rlstudio.core.host.process import this_process


def stop_sweep(workspace: Workspace, name: str) -> list[EndRequest]:
    """First the driver, so that no run is started any more, then the runs: each pauses at its next safe point."""
    workspace.reap()
    Sweeps(workspace.store.database).stop(name)
    return _pause_runs(workspace, name)


def _pause_runs(workspace: Workspace, name: str) -> list[EndRequest]:
    requests = []
    for run in workspace.store.runs(sweep=name):
        if run.is_managed and is_active(run):
            with suppress(Conflict, RunNotFound):  # it ended meanwhile
                requests.append(EndRequest(workspace, run.id, Desired.STOP, pause=True))
    return requests


def runs_to_remove(workspace: Workspace, name: str) -> list[Entry]:
    """The runs that go with a sweep; refused while it lives, and where a run of others was forked from one of them."""
    workspace.reap()
    sweep = Sweeps(workspace.store.database).get(name)
    if sweep.is_driven:
        raise Conflict(
            f"sweep {name}: process {sweep.process.pid} on {sweep.process.host} drives it; stop it first with:"
            f" rlctl sweep stop {name}"
        )
    entries = _ended_runs(workspace, sweep)
    refuse_referred(workspace, {entry.id for entry in entries})
    return entries


def _ended_runs(workspace: Workspace, sweep: Sweep) -> list[Entry]:
    runs = workspace.store.runs(sweep=sweep.name)
    for run in runs:
        if run.is_owned:
            goes_on = run.is_managed and sweep.state != SweepState.COMPLETED
            command = f"rlctl sweep stop {sweep.name}" if goes_on else f"rlctl stop {run.id}"
            raise Conflict(f"sweep {sweep.name}: run {run.id} is {run.state}; end it first with: {command}")
    return [workspace.entry(run) for run in runs]


def remove_sweep(workspace: Workspace, name: str) -> Iterator[str]:
    """Remove a sweep with its runs; yields the id of each run that is gone. The sweep itself goes last: after a kill it
    is still there to be removed. Until then it is this process's, so that no other one resumes it."""
    runs_to_remove(workspace, name)
    sweeps = Sweeps(workspace.store.database)
    sweep = sweeps.claim(name, this_process())
    try:
        _pause_runs(workspace, name)  # no worker starts one of them from now on
        for entry in _ended_runs(workspace, sweep):
            remove(workspace, entry)
            yield entry.id
        remove_log(workspace, name)
        sweeps.remove(sweep)
    except BaseException:
        with suppress(RLStudioError):  # the first error is the one to report
            sweeps.end(sweep, SweepState.STOPPED)
        raise
