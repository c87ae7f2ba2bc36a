"""Launchers start the process of a claimed run. A launcher is one method."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol

from rlstudio.control.runs.folders import folder_of
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.storage.folder import Folder


class Process(Protocol):
    """A started run. `poll` is None while it lives, and its exit code afterwards."""

    pid: int

    def poll(self) -> int | None: ...


class Launcher(Protocol):
    def launch(self, run: RunRow, devices: Sequence[int]) -> Process: ...


class SubprocessLauncher:
    """A process of its own session: neither a closed terminal nor the end of the worker that started it reaches it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def launch(self, run: RunRow, devices: Sequence[int]) -> Process:
        folder = folder_of(self._workspace, run)
        command = [sys.executable, "-P", "-m", "rlstudio.control.queue.runner", run.id, str(run.token)]
        log = Folder(folder.path).output(folder.log_path.name)
        try:
            return subprocess.Popen(
                [*command, str(self._workspace.runs_dir.absolute())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment(devices),
            )
        finally:
            os.close(log)

    def _environment(self, devices: Sequence[int]) -> dict[str, str]:
        """GPUs that the run was not given are hidden from it, also where that is all of them."""
        variables = {"PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}
        if not self._workspace.url.startswith("sqlite:"):
            variables[DATABASE_VARIABLE] = self._workspace.url
        return {**os.environ, **variables}
