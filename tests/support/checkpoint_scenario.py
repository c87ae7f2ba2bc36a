"""A small run at protocol level, for the fault tests: no torch, but every kind of thing a run writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rlstudio.core.contracts import Segment
from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.checkpoint.manifest import VERSION
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.folder.status import Status
from rlstudio.experiment.metrics.records import Record
from rlstudio.experiment.metrics.writer import MetricsWriter

STEPS = (100, 200, 300)


def content(step: int, offset: int = 0) -> dict[str, Any]:
    """The state at `step`: weights that name it, and a replay of two segments, one of them shared with the last."""
    newest = step // 100
    segments = [Segment(f"rows-{n}", lambda n=n: {"x": np.full((16, 2), n, np.float32)}) for n in (newest - 1, newest)]
    return {
        "version": VERSION,
        "module_state": {"model": {"w": np.full((4, 3), step, np.float32), "b": np.arange(3) + step}},
        "trainer_state": {"optimizer": {"m": np.full(12, step / 7)}, "gradient_steps": step * 2, "replay": segments},
        "replay_meta": {"size": step},
        "rng_state": {"seed": 3, "counter": step},
        "meta": {"metrics_offset": offset},
    }


HASHES = {state_hash(content(step)): step for step in (*STEPS, 400)}


def new_run(root: Path) -> Path:
    return RunFolder.create(root, NewRun(name="scenario", algo="ppo", env_id="Chain", config_yaml="a: 1\n")).path


def advance(run_dir: Path, steps: tuple[int, ...]) -> None:
    """What a session does between two checkpoints, for each of `steps`: metrics, events, status, save, prune."""
    with FileLease(run_dir) as lease:
        run = RunFolder(run_dir)
        checkpoints = Checkpoints(run_dir, run_dir.name, lease)
        metrics = MetricsWriter(run_dir, lease=lease, rotate_mb=0.0002)
        found = checkpoints.newest_good()
        missing = metrics.cut_back(found.loaded.content["meta"]["metrics_offset"] if found else 0)
        assert missing == 0
        checkpoints.prune(keep_last=1, keep=set())  # the last process may have died before it did
        status = run.read_status()
        for step in steps:
            for part in (50, 25, 0):
                metrics.write([Record(1.0, step - part, key, step / 3) for key in ("loss", "return")])
                metrics.flush()
            run.event("epoch", step=step)
            offset = metrics.offset()
            checkpoints.save(content(step, offset), step=step, manifest={"env_steps": step, "exact": True})
            checkpoints.prune(keep_last=1, keep=set())
            status = Status(**{**vars(status), "state": RunState.RUNNING, "env_steps": step})
            run.write_status(status)
        run.write_status(Status(**{**vars(status), "state": RunState.COMPLETED}))
        metrics.close()
        run.close()


def newest(run_dir: Path) -> int:
    """The step of the newest checkpoint, after making sure that every one there is whole and what it claims to be."""
    checkpoints = Checkpoints(run_dir, run_dir.name, None)
    found = checkpoints.newest_good()
    assert found is not None
    assert found.rejected == []
    for info in checkpoints.list():
        loaded = checkpoints.load(info.step)
        assert HASHES[state_hash(loaded.content)] == HASHES[info.state_hash] == info.step
    return found.loaded.info.step


def leftovers(run_dir: Path) -> list[Path]:
    return [path for path in run_dir.rglob(".t*") if path.name.startswith((".tmp-", ".trash-"))]
