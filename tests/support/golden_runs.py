"""Makes `tests/golden/run-v2`: a PPO and a DQN of this version, left half-way, with the fingerprint of this machine.

    PYTHONPATH=tests .venv/bin/python -m support.golden_runs

Only for a version that was never released: afterwards the runs stay, and a new version gets some beside them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rlstudio.data.replay import buffer as replay
from rlstudio.experiment.checkpoint.manifest import VERSION
from rlstudio.experiment.config.experiment import experiment_from
from support.sessions import start

GOLDEN = Path(__file__).parents[1] / "golden"
SEGMENT_ROWS = 64
STOP = 5  # epochs of 8
TRAIN = {
    "ppo": {"rollout_steps": 16, "passes": 2},
    "dqn": {"learning_starts": 32, "train_every": 4, "target_every": 20, "n_step": 3},
}


def write(algo: str, runs_dir: Path) -> None:
    network = {"hidden_sizes": [8], "normalize_observations": algo == "ppo"}
    cfg = experiment_from(
        {
            "name": f"golden-{algo}",
            "env": {"id": "CartPole-v1", "num_envs": 2, "seed": 7},
            "policy": {"algo": algo, "network": network},
            "train": {"epochs": 8, "steps_per_epoch": 64, "batch_size": 16, **TRAIN[algo]},
            "buffer": {"capacity": 256},
            "eval": {"every_epochs": 2, "episodes": 2, "final_episodes": 2},
            "ckpt": {"every_seconds": None, "every_epochs": 2, "keep_last": 2},
            "guardrails": {"rollback_every_epochs": 3},
        }
    )
    with start(cfg, runs_dir) as session:
        for tick in session:
            if tick.report is not None and tick.report.epoch == STOP:
                break


if __name__ == "__main__":
    replay.SEGMENT_ROWS = SEGMENT_ROWS
    target = GOLDEN / f"run-v{VERSION}"
    shutil.rmtree(target, ignore_errors=True)
    for name in TRAIN:
        write(name, target)
    sys.stdout.write(f"{target}: {', '.join(sorted(path.name for path in target.iterdir()))}\n")
