"""The smallest experiment of each algorithm. A test gives only the settings that it is about.

`tiny("dqn", train={"n_step": 3})` is the tiny DQN experiment with three-step returns: sections are merged, key by key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from

NUMBERS = ("sac", "td3")
"""Algorithms that know only numbers as actions."""

REPLAYED = {"batch_size": 16, "learning_starts": 32, "train_every": 16, "gradient_steps": 2}
DYNAMICS = {"kind": "ensemble", "members": 2, "hidden_sizes": [8]}
TRAIN: dict[str, dict[str, Any]] = {
    "a2c": {"rollout_steps": 4, "normalize_rewards": False},
    "bc": {"batch_size": 16},  # and `dataset`, which the test records
    "diffusion": {**REPLAYED, "planner": {"horizon": 4, "candidates": 8, "levels": 3}},
    "dqn": REPLAYED,
    "mbmpc": {**REPLAYED, "planner": {"horizon": 3, "candidates": 8}, "dynamics": DYNAMICS},
    "mpc": {"planner": {"horizon": 3, "candidates": 8}},
    "ppo": {"batch_size": 32, "passes": 1, "normalize_rewards": False},
    "qrdqn": {**REPLAYED, "quantiles": 8},
    "sac": REPLAYED,
    "td3": REPLAYED,
}


def tiny_data(algo: str = "ppo", **changes: Any) -> dict[str, Any]:
    """As plain data: three epochs of 64 steps in two worlds, an evaluation of two episodes at the end."""
    smallest = {
        "name": "tiny",
        "env": {"id": "Pendulum-v1" if algo in NUMBERS else "CartPole-v1", "num_envs": 2, "seed": 3},
        "policy": {"algo": algo, "network": {"hidden_sizes": [8]}},
        "train": {"epochs": 3, "steps_per_epoch": 64, **TRAIN[algo]},
        "buffer": {"capacity": 256},
        "eval": {"every_epochs": 0, "final_episodes": 2},
    }
    return merged(smallest, changes)


def tiny(algo: str = "ppo", **changes: Any) -> ExperimentConfig:
    """As a checked experiment."""
    return experiment_from(tiny_data(algo, **changes))


def tiny_yaml(algo: str = "ppo", **changes: Any) -> str:
    """As the text of a file."""
    return yaml.safe_dump(tiny_data(algo, **changes), sort_keys=False)


def merged(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """New data with the changes put over it; neither argument is touched."""
    both = {key: merged(value, {}) if isinstance(value, Mapping) else value for key, value in data.items()}
    for key, value in changes.items():
        inside = both.get(key)
        both[key] = merged(inside, value) if isinstance(inside, Mapping) and isinstance(value, Mapping) else value
    return both
