"""What Ray runs on a node for one run: it holds the run's cores, memory and GPUs, and has the run's process as a child.

It is detached: the death of the worker that asked for it does not end it. It leaves when the run's process has ended,
and takes that process with it when the node's Ray dies, so that Ray's account of the node stays true.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from rlstudio.control.queue.launchers import SubprocessLauncher
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from rlstudio.core.host.process_exit import PARENT_VARIABLE
from rlstudio.scale.ray_start import PLACED_BY

LINGER_SECONDS = 10.0
"""For so long the exit code can be asked for after the end."""

SET_BY_RAY = ("OMP_NUM_THREADS",)


class RunOnNode:
    def __init__(self, run: RunRow, runs_dir: str, url: str | None, variables: Mapping[str, str]) -> None:
        """`variables`: those of the worker's environment that a run of its own machine would have had."""
        import ray

        for name in SET_BY_RAY:
            os.environ.pop(name, None)
        cluster = ray.get_runtime_context().gcs_address
        os.environ.update({**variables, PARENT_VARIABLE: str(os.getpid()), PLACED_BY: cluster})
        workspace = Workspace(Path(runs_dir), url)
        if not workspace.folder(run.id).exists:
            raise UserError(
                f"run {run.id}: its folder is not on {os.uname().nodename} in {runs_dir}; every node must see the same"
                " runs folder under the same path"
            )
        gpus = [int(index) for index in ray.get_gpu_ids()]
        self._process = SubprocessLauncher(workspace).launch(run, gpus)
        threading.Thread(target=self._leave_after_it, daemon=True).start()

    def wait(self) -> int:
        return self._process.wait()

    def _leave_after_it(self) -> None:
        self._process.wait()
        time.sleep(LINGER_SECONDS)
        os._exit(0)
