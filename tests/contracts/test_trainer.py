"""Every algorithm in the catalog keeps the contract of algorithms, whoever wrote it."""

from __future__ import annotations

from typing import Any

from rlstudio.core.catalog import ALGOS
from rlstudio.testing import TrainerContract
from support.contracts import suites

PLANS = {"planner": {"horizon": 3, "candidates": 8, "iterations": 2}}
SMALL: dict[str, dict[str, Any]] = {
    "diffusion": {
        "train_every": 4,
        "gradient_steps": 2,
        "gamma": 0.9,
        "planner": {"horizon": 5, "candidates": 8, "levels": 3, "value": "own"},
    },
    "mbmpc": {
        "train_every": 4,
        "gradient_steps": 2,
        "n_step": 2,
        "dynamics": {"members": 2, "hidden_sizes": [8]},
        **PLANS,
    },
    "mpc": {"rollout_steps": 5, **PLANS},  # else each train step plans for a whole epoch
    "ppo": {"rollout_steps": 20},  # a train step is 8 updates, not 16
}

parts = {
    name: {"train": SMALL.get(name, {}), "reads_rewards": name not in ("bc", "diffusion")} for name in ALGOS.names()
}
globals().update(suites(TrainerContract, parts))
