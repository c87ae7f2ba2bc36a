"""A small run at protocol level, for the fault tests: no torch, but every kind of thing a run writes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlstudio.core.contracts import Segment
from rlstudio.experiment.checkpoint import Checkpoints, state_hash
from rlstudio.experiment.lease import FileLease
from rlstudio.experiment.metrics import MetricsWriter, Record
from rlstudio.experiment.run_folder import RunFolder
from rlstudio.experiment.status import RunState, Status

STEPS = (100, 200, 300)


def content(step: int, offset: int = 0) -> dict[str, Any]:
    """The state at `step`: weights that name it, and the replay as one fixed segment per hundred steps."""
    segments = [Segment(f"rows-{n}", lambda n=n: {"x": np.full((16, 2), n, np.float32)}) for n in range(step // 100)]
    return {
        "version": 1,
        "module_state": {"model": {"w": np.full((4, 3), step, np.float32), "b": np.arange(3) + step}},
        "trainer_state": {"optimizer": {"m": np.full(12, step / 7)}, "gradient_steps": step * 2, "replay": segments},
        "replay_meta": {"size": step},
        "rng_state": {"seed": 3, "counter": step},
        "meta": {"metrics_offset": offset},
    }


HASHES = {state_hash(content(step)): step for step in (*STEPS, 400)}


def new_run(root: Path) -> Path:
    return RunFolder.create(root, name="scenario", algo="ppo", env_id="Chain", config_yaml="a: 1\n").path


def advance(run_dir: Path, steps: tuple[int, ...]) -> None:
    """What a session does between two checkpoints, for each of `steps`: metrics, events, status, save, prune."""
    with FileLease(run_dir) as lease:
        run = RunFolder(run_dir)
        checkpoints = Checkpoints(run_dir, run_dir.name, lease)
        metrics = MetricsWriter(run_dir, lease=lease, rotate_mb=0.0005)
        found = checkpoints.newest_good()
        missing = metrics.cut_back(found.loaded.content["meta"]["metrics_offset"] if found else 0)
        assert missing == 0
        status = run.read_status()
        for step in steps:
            metrics.write([Record(1.0, step - 50, "loss", step / 3), Record(1.0, step, "return", step)])
            metrics.flush()
            run.event("epoch", step=step)
            offset = metrics.offset()
            checkpoints.save(content(step, offset), step=step, manifest={"env_steps": step, "exact": True})
            checkpoints.prune(keep_last=2, keep=set())
            status = Status(**{**vars(status), "state": RunState.RUNNING, "env_steps": step})
            run.write_status(status)
        run.write_status(Status(**{**vars(status), "state": RunState.COMPLETED}))
        metrics.close()
        run.close()


def in_child(act: Callable[[], object]) -> int:
    """Run `act` in a forked child; its wait status (0: done, 9: killed)."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def leftovers(run_dir: Path) -> list[Path]:
    return [path for path in run_dir.rglob(".t*") if path.name.startswith((".tmp-", ".trash-"))]
