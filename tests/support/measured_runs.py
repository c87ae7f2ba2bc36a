"""Runs that never trained: a folder with a status, a configuration and the metrics that a test asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.records import CURRENT, Record, to_line

Curves = Mapping[str, Sequence[tuple[int, float]]]


def measured_run(
    runs_dir: Path,
    name: str,
    seed: int,
    metrics: Curves,
    *,
    lr: float = 1e-3,
    env_id: str = "CartPole-v1",
    state: RunState = RunState.COMPLETED,
) -> str:
    """Returns the id of a run that measured this. `lr` is the only setting in which configurations differ."""
    config = {"name": name, "env": {"id": env_id, "seed": seed}, "train": {"lr": lr}}
    new = NewRun(name, "ppo", env_id, json.dumps(config), config_hash=f"{env_id}-{lr}", seed=seed)
    folder = RunFolder.create(runs_dir, new, state=state)
    records = [Record(0.0, step, key, value) for key, points in metrics.items() for step, value in points]
    (folder.path / CURRENT).write_bytes(b"".join(map(to_line, records)))
    folder.close()
    return folder.id


def learning(best: float, seed: int, evaluations: int = 10, step: int = 1000) -> Curves:
    """A return that rises to about `best`, a little different for each seed, evaluated so often."""
    shares = [(number * step, 1 - 0.7**number) for number in range(1, evaluations + 1)]
    evaluated = [(at, best * share + seed) for at, share in shares]
    trained = [(number * step // 2, best * number / 40 + seed) for number in range(1, 21)]
    return {"eval/return_mean": evaluated, "rollout/return_mean": trained}
