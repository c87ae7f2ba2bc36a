"""`ls`, `show`, `stop` and `rm`: runs as files. Nothing here imports torch."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli import text
from rlstudio.cli.options import Json, Run, Runs, RunsDir
from rlstudio.cli.runs_dir import DEFAULT_RUNS_DIR, in_runs_dir
from rlstudio.cli.terminal import STATE_STYLES, Cell, stdout
from rlstudio.core.errors import RLStudioError, RunBusy, UserError

if TYPE_CHECKING:
    from rlstudio.experiment.status import Status

SHOWN = 20
STOP_SECONDS = 6.0
"""A run leaves within 5 s of the signal, saved or not."""


def ls(
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help=f"Newest runs to list; 0: all.  [default: {SHOWN}]")
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """List the runs, newest first."""
    from rlstudio.experiment.run_folder import list_runs

    everything = list_runs(runs_dir)
    count = limit if limit is not None else (0 if json else SHOWN)
    shown = everything[:count] if count else everything
    out = stdout()
    if json:
        out.document([status.to_json() for status in shown])
    elif not everything:
        out.line(f"no runs in {runs_dir} yet; start one with: rlctl launch -f configs/ppo/cartpole.yaml")
    else:
        out.table(["id", "name", "state", "age", "epoch", "steps", "return"], [_row(status) for status in shown])
        if len(shown) < len(everything):
            out.line(f"{len(everything) - len(shown)} older ones: rlctl ls --limit 0{in_runs_dir(runs_dir)}", "dim")


def _row(status: Status) -> list[str | Cell]:
    state = f"{status.state}: {status.reason}" if status.reason else str(status.state)
    return [
        status.id,
        status.name,
        Cell(state, STATE_STYLES.get(status.state, "")),
        text.age(status.created_at),
        f"{status.epoch}/{status.total_epochs}",
        f"{status.env_steps:,}",
        text.number(status.eval_return),
    ]


def show(run: Run, runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: Json = False) -> None:
    """Show one run: state, progress, evaluation, hashes, checkpoints."""
    from rlstudio.cli.describe import print_run, run_document
    from rlstudio.experiment.run_folder import find_run

    document = run_document(find_run(runs_dir, run))
    if json:
        stdout().document(document)
    else:
        print_run(stdout(), document)


def stop(run: Run, runs_dir: RunsDir = DEFAULT_RUNS_DIR) -> None:
    """End a running run at its next safe point; it can be resumed."""
    from rlstudio.experiment.run_folder import find_run
    from rlstudio.experiment.status import OWNED

    folder = find_run(runs_dir, run)
    status = folder.read_status()
    if status.state not in OWNED:
        raise UserError(f"run {folder.id}: is not running ({status.state}); there is nothing to stop")
    if status.host != os.uname().nodename:
        raise UserError(f"run {folder.id}: runs on {status.host}; stop it there")
    with _process(status) as descriptor:
        if descriptor is not None:
            _ask_to_end(descriptor, folder.id)
            if not _ended(descriptor, STOP_SECONDS):
                raise RLStudioError(
                    f"run {folder.id}: process {status.pid} was asked to stop and is still there after"
                    f" {STOP_SECONDS:g} s; look again with: rlctl show {folder.id}{in_runs_dir(runs_dir)}"
                )
    after = folder.read_status()
    again = "" if after.state == "COMPLETED" else f"; go on with: rlctl resume {folder.id}{in_runs_dir(runs_dir)}"
    stdout().line(f"run {folder.id}: {after.state} at {after.env_steps:,} steps{again}")


@contextmanager
def _process(status: Status) -> Iterator[int | None]:
    """A handle on the very process that owns the run (a pid alone may be another one's by now); None if it is gone."""
    from rlstudio.experiment.process import Owner, is_gone

    try:
        descriptor = os.pidfd_open(status.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        # The handle keeps meaning the process it was opened for, so its start time is compared after opening.
        gone = is_gone(Owner(status.host, status.boot_id, status.pid, status.pid_start))
        yield None if gone else descriptor
    finally:
        os.close(descriptor)


def _ask_to_end(descriptor: int, run_id: str) -> None:
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except PermissionError as error:
        raise UserError(f"run {run_id}: its process belongs to another user, who alone can stop it") from error


def _ended(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def rm(
    runs: Runs,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> int:
    """Delete runs with all they hold. Running ones are refused."""
    from rlstudio.experiment.run_folder import find_run
    from rlstudio.experiment.status import OWNED

    folders = {folder.id: folder for folder in (find_run(runs_dir, run) for run in runs)}
    for folder in folders.values():
        if folder.read_status().state in OWNED:
            raise RunBusy(
                f"run {folder.id}: is running; end it first with: rlctl stop {folder.id}{in_runs_dir(runs_dir)}"
            )
    if not yes and not _confirmed(list(folders), runs_dir):
        return 1
    for folder in folders.values():
        folder.remove()
        stdout().line(f"run {folder.id}: removed")
    return 0


def _confirmed(ids: list[str], runs_dir: Path) -> bool:
    if not sys.stdin.isatty():
        raise UserError("rm asks before it deletes, and nobody is there to answer; give --yes")
    for run_id in ids:
        stdout().line(f"  {runs_dir / run_id}")
    return typer.confirm(f"delete {'this run' if len(ids) == 1 else f'these {len(ids)} runs'} for good?")
