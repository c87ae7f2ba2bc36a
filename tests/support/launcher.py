"""A launcher that trains the run here and now: `launch` returns when it has ended."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rlstudio.control.queue import runner
from rlstudio.control.queue.launchers import Process
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace


class InProcessLauncher:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def launch(self, run: RunRow, devices: Sequence[int]) -> Process:
        return _Ended(runner.main(run.id, run.token, self._workspace.runs_dir))


class _Ended:
    def __init__(self, code: int) -> None:
        self.pid = os.getpid()
        self._code = code

    def poll(self) -> int | None:
        return self._code
