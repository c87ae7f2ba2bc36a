"""A sweep whose driver runs in the background: a process of its own session, with a log in the state folder."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rlstudio.control.sweep.sweeps import Sweep, Sweeps
from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.host.process import process_of
from rlstudio.storage.folder import Folder, ensure_directory


def log_path(workspace: Workspace, name: str) -> Path:
    return workspace.state_dir / f"sweep-{name}.log"


def remove_log(workspace: Workspace, name: str) -> None:
    log = log_path(workspace, name)
    if log.is_file():
        Folder(workspace.state_dir).delete(log.name)


def resume_command(
    workspace: Workspace, name: str, max_concurrent: int | None = None, notify: Sequence[str] = ()
) -> list[str]:
    """What drives a sweep that is in the store."""
    again = ["sweep", "--resume", name, "--runs-dir", str(workspace.runs_dir)]
    again += [] if max_concurrent is None else ["--max-concurrent", str(max_concurrent)]
    again += ["--notify", shlex.join(notify)] if notify else []
    return [sys.executable, "-P", "-m", "rlstudio.cli.app", *again]


def start_driver(workspace: Workspace, name: str, command: Sequence[str], *, take_over: bool = False) -> Sweep:
    """Start `command`, which is to drive a sweep that nobody drives, and record that it does: when this returns the
    sweep is its own, and if it dies the sweep shows as interrupted. Neither a closed terminal nor the end of this
    process reaches it."""
    sweeps = Sweeps(workspace.store.database)
    sweeps.refuse_driven(name, take_over=take_over)
    ensure_directory(workspace.state_dir)
    log = Folder(workspace.state_dir).output(log_path(workspace, name).name)
    variables = {} if workspace.url.startswith("sqlite:") else {DATABASE_VARIABLE: workspace.url}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
        )
    finally:
        os.close(log)
    try:
        return sweeps.assign(name, process_of(process.pid), take_over=take_over)
    except BaseException:
        process.terminate()  # another process took the sweep meanwhile
        raise
