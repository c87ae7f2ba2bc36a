"""The process of a run that a worker started: `python -m rlstudio.control.queue.runner RUN TOKEN RUNS_DIR`. Where a
cluster starts it again after that, without a worker, TOKEN is `again`.

It takes the run over from the worker that claimed it, trains it to its end and records in the store how it ended. What
it prints goes to the run's `stdout.log`. It outlives the worker.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from rlstudio.control.runs.starting import heartbeats
from rlstudio.control.store.reaper import TTL_SECONDS
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import LeaseLost, RLStudioError
from rlstudio.core.host.portable import is_portable, is_possible, restart
from rlstudio.core.host.process import this_process
from rlstudio.core.host.process_exit import end_with_parent, leave, noticing_exits, report_crashes
from rlstudio.core.parsing.yaml_file import read_file
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.folder.run_folder import RunFolder

GRACE_SECONDS = 4.0
AGAIN = "again"
LOOK_SECONDS = 1.0
OWNER_SECONDS = TTL_SECONDS + 5.0
"""For so long a process that was started again waits for the end of the one before it."""


def main(run_id: str, token: int | None, runs_dir: Path) -> int:
    """`token`: of the worker's claim; None: the run is claimed here."""
    report_crashes()
    end_with_parent()
    with noticing_exits(_complain):
        return _train(run_id, token, runs_dir)


def _train(run_id: str, token: int | None, runs_dir: Path) -> int:
    workspace = Workspace(runs_dir)
    try:
        token = _claimed_again(workspace, run_id) if token is None else token
        if token is None:
            return 0
        run = workspace.store.hand_over(run_id, token, this_process())
    except RLStudioError as error:
        return _report(error)
    if _asks_for_portable(workspace.folder(run_id)) and is_possible() and not is_portable():
        restart()  # as the same process, which may take the run over again
    _enter_directory(workspace, run_id)
    with ExitStack() as until_ready:
        until_ready.enter_context(heartbeats(workspace.store, run))
        return _serve(workspace, run, until_ready.close)


def _serve(workspace: Workspace, run: RunRow, ready: Callable[[], None]) -> int:
    # Only now: importing torch takes a second, in which the store would not know the run's process.
    from rlstudio.control.runs.start import serve
    from rlstudio.experiment.run.hang_watch import HangWatch
    from rlstudio.experiment.run.signals import Interrupted

    try:
        with serve(workspace, run, on_lost=_leave_soon) as session, HangWatch(session, _complain):
            ready()
            for _ in session:
                pass
    except Interrupted as stop:
        return 128 + stop.signum
    except RLStudioError as error:
        return _report(error)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _claimed_again(workspace: Workspace, run_id: str) -> int | None:
    """The token of a new claim; None where the run is not to go on. The process that had it may have died with its
    machine, which is certain only after a while without heartbeats."""
    reaper = workspace.reaper()
    until = time.monotonic() + OWNER_SECONDS
    while (run := workspace.store.get(run_id)).is_owned and time.monotonic() < until:
        reaper.look()
        time.sleep(LOOK_SECONDS)
    if run.may_retry:
        run = workspace.store.resume(run_id, Reason.RETRY)
    if run.state != RunState.QUEUED:
        _complain(f"run {run_id}: is {run.state}; this start does nothing")
        return None
    return workspace.store.claim(run_id, this_process()).token


def _enter_directory(workspace: Workspace, run_id: str) -> None:
    """Paths that an environment opens mean what they meant where the run was launched, wherever its worker runs."""
    directory = workspace.store.lineage(run_id).get("directory")
    if directory is None:
        return  # an older run, or one that was adopted
    try:
        os.chdir(directory)
    except OSError as error:
        _complain(
            f"run {run_id}: was launched in {directory}, which cannot be entered here ({error.strerror});"
            f" it runs in {os.getcwd()}"
        )


def _asks_for_portable(folder: RunFolder) -> bool:
    """By its config as it stands: checking it would import the algorithm, and with it torch. What is wrong with it is
    reported when the run is opened."""
    try:
        runtime = read_file(folder.config_path).data.get("runtime")
    except (RLStudioError, AttributeError):
        return False
    return isinstance(runtime, dict) and runtime.get("numerics") == "portable"


def _report(error: RLStudioError) -> int:
    _complain(str(error))
    return error.exit_code


def _complain(line: str) -> None:
    sys.stderr.write(f"rlctl: {line}\n")


def _leave_soon() -> None:
    """The lease was lost. The session notices at its next commit; one that is stuck is ended after GRACE_SECONDS."""
    timer = threading.Timer(GRACE_SECONDS, leave, (LeaseLost.exit_code,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    given = None if sys.argv[2] == AGAIN else int(sys.argv[2])
    raise SystemExit(main(sys.argv[1], given, Path(sys.argv[3])))
