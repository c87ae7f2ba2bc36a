"""What every launcher promises: a claimed run becomes a process that trains it to its end, and no other does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from rlstudio.control.queue.launchers import Launcher, read_launcher
from rlstudio.control.runs.start import enqueue
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.experiment import experiment_from

TINY = {
    "env": {"id": "CartPole-v1", "num_envs": 2},
    "policy": {"algo": "ppo", "network": {"hidden_sizes": [8]}},
    "train": {"epochs": 1, "steps_per_epoch": 32, "rollout_steps": 16, "batch_size": 32},
    "eval": {"every_epochs": 0, "final_episodes": 1},
}


class LauncherContract:
    """The contract of a launcher as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Name of the launcher."""

    settings: ClassVar[Sequence[str]] = ()
    """As on the command line: ("launcher.partition=long",)."""

    patience: ClassVar[float] = 300.0
    """Seconds after which a run that has not ended counts as lost."""

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Iterator[Workspace]:
        workspace = Workspace(tmp_path / "runs")
        yield workspace
        workspace.store.database.close()

    def make(self, workspace: Workspace) -> Launcher:
        launcher: Launcher = read_launcher(self.part, self.settings).build(workspace)
        return launcher

    def claimed(self, workspace: Workspace, **sections: object) -> RunRow:
        run = enqueue(workspace, experiment_from({**TINY, **sections}))
        return workspace.store.claim(run.id, this_process())

    def launched(self, workspace: Workspace, run: RunRow) -> int:
        """Start it and wait for its end; returns its exit code."""
        process = self.make(workspace).launch(run, [])
        assert process.pid > 0
        deadline = time.monotonic() + self.patience
        while (code := process.poll()) is None:
            assert time.monotonic() < deadline, f"run {run.id} has not ended after {self.patience:.0f} s"
            time.sleep(0.05)
        return code

    def test_a_run_is_trained_to_its_end_and_the_store_knows(self, workspace: Workspace) -> None:
        run = self.claimed(workspace)
        assert self.launched(workspace, run) == 0
        ended = workspace.store.get(run.id)
        assert (ended.state, ended.epoch) == (RunState.COMPLETED, 1)

    def test_a_claim_that_was_lost_starts_nothing(self, workspace: Workspace) -> None:
        run = self.claimed(workspace)
        workspace.store.move(run.id, run.token, RunState.INTERRUPTED)
        assert self.launched(workspace, run) != 0
        assert workspace.store.get(run.id).state == RunState.INTERRUPTED
