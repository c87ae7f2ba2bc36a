"""What the process of a run may see of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlstudio.control.queue import launchers
from rlstudio.control.queue.launchers import SubprocessLauncher
from rlstudio.control.workspace import Workspace
from support.control_world import request


@pytest.mark.parametrize(("devices", "visible"), [([], ""), ([2], "2"), ([0, 3], "0,3")])
def test_a_run_sees_the_gpus_it_was_given_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: list[int], visible: str
) -> None:
    started: list[dict[str, Any]] = []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")  # of the worker
    monkeypatch.setattr(launchers.subprocess, "Popen", lambda command, **options: started.append(options))
    workspace = Workspace(tmp_path / "runs")
    SubprocessLauncher(workspace).launch(workspace.store.create(request()), devices)
    assert started[0]["env"]["CUDA_VISIBLE_DEVICES"] == visible
    workspace.store.database.close()
