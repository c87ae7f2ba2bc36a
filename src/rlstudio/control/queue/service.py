"""A worker that a launch starts where none is running: it serves the queue until nothing is left, then leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rlstudio.control.queue.backends import Backends
from rlstudio.control.queue.launchers import Launcher, LauncherConfig
from rlstudio.control.queue.room import shortage
from rlstudio.control.queue.scheduler import Observed, Scheduler
from rlstudio.control.queue.worker import Worker
from rlstudio.control.store.resources import Slots, of_this_machine
from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.host.portable import native_environment
from rlstudio.storage.folder import Folder, ensure_directory

LOG = "worker.log"
WATCH_SECONDS = 0.5


def ensure_worker(workspace: Workspace) -> None:
    """A worker serves the queue when this returns. Two launches at once may start two workers, which does no harm.
    Where only workers of other hosts are registered, this waits for a heartbeat of one of them."""
    while workers := workspace.workers.alive():
        if any(worker.is_certain for worker in workers):
            return
        time.sleep(WATCH_SECONDS)
    ensure_directory(workspace.state_dir)
    log = Folder(workspace.state_dir).output(LOG)
    variables = {} if workspace.url.startswith("sqlite:") else {DATABASE_VARIABLE: workspace.url}
    try:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "rlstudio.control.queue.service", str(workspace.runs_dir.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**native_environment(os.environ), **variables},
        )
    finally:
        os.close(log)


def worker(
    workspace: Workspace,
    slots: Slots,
    *,
    until_idle: bool,
    launcher: LauncherConfig | None = None,
    tell: Callable[[Observed], None] = lambda observed: None,
    complain: Callable[[str], None] = lambda text: None,
) -> Worker:
    starts: Launcher = (launcher or LauncherConfig()).build(workspace)
    scheduler = Scheduler(
        workspace.store,
        slots,
        starts,
        elsewhere=Backends(workspace),
        reaper=workspace.reaper(),
        shortage=lambda: shortage(workspace.runs_dir, workspace.state_dir),
    )
    return Worker(scheduler, until_idle=until_idle, tell=tell, complain=complain)


if __name__ == "__main__":
    worker(Workspace(Path(sys.argv[1])), of_this_machine(), until_idle=True).serve()
