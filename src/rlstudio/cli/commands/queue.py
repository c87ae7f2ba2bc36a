"""`stop`, `pause`, `cancel`, `queue` and `worker`: commands for runs in other processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Algos, Envs, Json, Run, RunsDir, RunWords, States, Tags
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.failures import complain
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.core.errors import RLStudioError, UserError
from rlstudio.core.run_state import OWNED, RunState
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.queue.scheduler import Observed
    from rlstudio.control.runs.stop import EndRequest
    from rlstudio.control.store.records import RunRow as StoredRun
    from rlstudio.control.store.resources import Slots
    from rlstudio.control.workspace import Entry, Workspace
    from rlstudio.core.resources import ResourcesConfig

STOP_SECONDS = 6.0
"""A run leaves within 5 s of the signal, saved or not."""

ELSEWHERE_SECONDS = 20.0
"""A run on another host reads the request at its next heartbeat, and stops at its next safe point."""

POLL_SECONDS = 0.1

LOOKED_AT = 20
"""Runs that are next in the queue, whose configs are read for the clusters they name."""


def stop(
    words: RunWords = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Stop runs at their next safe point; they can be resumed. Runs of a group that wait in the queue are held back."""
    from rlstudio.control.lifecycle import Desired
    from rlstudio.control.runs.stop import EndRequest
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    selection = Selection(words, states, envs, algos, tags)
    entries = selection.acting_on(workspace)
    going = [entry for entry in entries if _is_going(entry)]
    if not selection.is_group(entries) or not going:
        for entry in entries:
            _refuse_still(entry)
    requests = [EndRequest(workspace, entry.id, Desired.STOP, pause=_waits(entry)) for entry in going]
    for after in wait_until_ended(workspace, requests):
        status = after.status
        again = "" if status.state == "COMPLETED" else f"; go on with: rlctl resume {after.id}{in_runs_dir(runs_dir)}"
        stdout().line(f"run {after.id}: {status.state} at {status.env_steps:,} steps{again}")


def _waits(entry: Entry) -> bool:
    return entry.status.state == RunState.QUEUED


def _is_going(entry: Entry) -> bool:
    """Whether it runs, waits in the queue, or waits to be tried again."""
    waits_for_retry = entry.run is not None and entry.run.is_managed and entry.run.may_retry
    return entry.status.state in OWNED or _waits(entry) or waits_for_retry


def _refuse_still(entry: Entry) -> None:
    if not _is_going(entry) or _waits(entry):
        hold = f"; hold it back with: rlctl pause {entry.id}, or take it out of the queue with: rlctl cancel {entry.id}"
        hint = hold if _waits(entry) else ""
        raise UserError(f"run {entry.id}: is not running ({entry.status.state}); there is nothing to stop{hint}")


def pause(run: Run, runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: Json = False) -> None:
    """Stop a run of the queue, waiting or running; it keeps its place, and `resume` puts it back."""
    from rlstudio.control.lifecycle import Desired
    from rlstudio.control.runs.looking.documents import entry_document
    from rlstudio.control.runs.stop import EndRequest
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    run_id = workspace.find(run).id
    (after,) = wait_until_ended(workspace, [EndRequest(workspace, run_id, Desired.STOP, pause=True)])
    if json:
        stdout().document(entry_document(after))
        return
    is_paused = after.run is not None and after.run.is_paused
    again = f"; back to its place in the queue with: rlctl resume {run_id}{in_runs_dir(runs_dir)}" if is_paused else ""
    state = "paused" if is_paused else after.status.state
    stdout().line(f"run {run_id}: {state} at {after.status.env_steps:,} steps{again}")


def cancel(
    words: RunWords = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Take runs out of the queue, or end them for good; what they have written stays."""
    from rlstudio.control.lifecycle import Desired
    from rlstudio.control.runs.stop import EndRequest
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    selection = Selection(words, states, envs, algos, tags)
    entries = selection.acting_on(workspace)
    going = [entry for entry in entries if _is_going(entry) or entry.status.state == RunState.INTERRUPTED]
    for entry in going if going and selection.is_group(entries) else entries:
        # One by one: what is refused leaves the others as they are.
        (after,) = wait_until_ended(workspace, [EndRequest(workspace, entry.id, Desired.CANCEL)])
        stdout().line(f"run {after.id}: {after.status.state} at {after.status.env_steps:,} steps")


def wait_until_ended(workspace: Workspace, requests: Sequence[EndRequest]) -> list[Entry]:
    """Deliver requests and wait for the end of their runs: `STOP_SECONDS` after a signal, else `ELSEWHERE_SECONDS`."""
    started = time.monotonic()
    while True:
        entries = [request.deliver() for request in requests]
        living = [n for n, entry in enumerate(entries) if entry.status.state in OWNED]
        if not living:
            return entries
        for n in living:
            patience = STOP_SECONDS if requests[n].has_signal else ELSEWHERE_SECONDS
            if time.monotonic() - started >= patience:
                run_id, pid = entries[n].id, entries[n].status.pid
                raise RLStudioError(
                    f"run {run_id}: process {pid} was asked to stop and is still there after {patience:g} s;"
                    f" look again with: rlctl show {run_id}{in_runs_dir(workspace.runs_dir)}"
                )
        time.sleep(POLL_SECONDS)


def queue(
    reap: Annotated[
        bool, typer.Option("--reap", help="First record runs whose process is gone, and list them.")
    ] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Show the runs that train, wait (in order) or are paused, and the workers of the queue."""
    from rlstudio.cli.screen.run_table import print_queue
    from rlstudio.control.queue.queue_document import queue_view
    from rlstudio.control.queue.room import shortage
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    reaped = workspace.reap() if reap else []
    view = queue_view(workspace)
    out = stdout()
    if json:
        recorded = {"reaped": [run.id for run in reaped]} if reap else {}
        out.document({**view.document(), **recorded})
        return
    if reap:
        _print_reaped(out, reaped)
    print_queue(out, view.document(), in_runs_dir(runs_dir))
    if held := shortage(workspace.runs_dir, workspace.state_dir):
        out.line(f"the queue waits: {held}", "yellow")
    for reason in _clusters_away(workspace, view.queued):
        out.line(f"runs wait for their cluster: {reason}", "yellow")


def _clusters_away(workspace: Workspace, queued: Sequence[Entry]) -> list[str]:
    """Of the Ray clusters that the next runs name, why one does not answer."""
    from rlstudio.control.queue.ray_cluster import away
    from rlstudio.control.queue.resources_of_runs import KnownResources
    from rlstudio.scale.ray_start import is_installed

    if not queued or not is_installed():
        return []
    known = KnownResources(workspace.records)
    asked = [known.of(entry.run) for entry in queued[:LOOKED_AT] if entry.run]
    addresses = dict.fromkeys(resources.address for resources in asked if resources.backend == "ray")
    return [reason for address in addresses if (reason := away(address))]


def _print_reaped(out: Terminal, reaped: list[StoredRun]) -> None:
    if not reaped:
        out.line("no run has lost its process; there is nothing to record")
    for run in reaped:
        out.line(f"run {run.id}: {run.state}: {run.reason}; {run.message}", "yellow")


def worker(
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="launcher.KEY=VALUE", help="Settings of the launcher.")
    ] = None,
    slots: Annotated[
        str,
        typer.Option(
            "--slots", metavar="cpu=N,gpu=N,memory_mb=N", help="Resources for runs; by default all of this machine."
        ),
    ] = "",
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Exit when nothing is left to do.")] = False,
    launcher: Annotated[
        str, typer.Option("--launcher", metavar="KIND", help="What starts runs; packages add kinds, see rlctl plugins.")
    ] = "subprocess",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Serve the queue of this store: start runs when slots are free, and retry those that crashed."""
    from rlstudio.control.queue.launchers import read_launcher
    from rlstudio.control.queue.resources_of_runs import KnownResources
    from rlstudio.control.queue.service import worker as make_worker
    from rlstudio.control.store.resources import parse_slots
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    given = parse_slots(slots)
    starts = read_launcher(launcher, settings or ())
    out = stdout()
    out.line(f"serving {workspace.store.database.where} with {given}; stop with Ctrl-C, runs go on", "dim")
    out.flush()
    refused: set[str] = set()
    known = KnownResources(workspace.store)
    held, away = False, list[str]()

    def print_changes(observed: Observed) -> None:
        nonlocal held, away
        if away != observed.away:
            away = observed.away
            for reason in away:
                out.line(f"runs wait for their cluster: {reason}", "yellow")
        if held != bool(observed.held):
            held = bool(observed.held)
            out.line(f"the queue waits: {observed.held}" if held else "the queue goes on", "yellow")
        for run in observed.reaped:
            out.line(f"{run.id}: {run.state}: {run.reason}; {run.message}", "yellow")
        for run in observed.retried:
            out.line(f"{run.id}: queued again, attempt {run.attempt + 1}")
        for run in observed.started:
            waiting = f"{observed.queue_depth} more wait" if observed.queue_depth else "nothing else waits"
            out.line(f"{run.id}: started, {run.algo} on {run.env_id}, seed {run.seed}; {waiting}")
        for run in observed.never:
            if run.id not in refused:
                out.line(f"{run.id}: needs more than {_room_for(run, known.of(run), given)}", "yellow")
                refused.add(run.id)
        out.flush()

    served = make_worker(
        workspace, given, until_idle=until_idle, launcher=starts, tell=print_changes, complain=complain
    )
    served.serve()


def _room_for(run: StoredRun, resources: ResourcesConfig, given: Slots) -> str:
    """The most there is where the run asks to be; a cluster may hold what this worker does not."""
    return f"this worker has ({given.lacking(run)})" if resources.backend == "local" else "any node of its cluster has"
