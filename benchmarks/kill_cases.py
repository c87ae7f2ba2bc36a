"""The runs that `benchmarks.kills` kills: every algorithm that learns, with every way to step environments.

`mpc` is not among them, because it learns nothing; nor is `envpool`, whose runs say `exact: no`. `bc` learns from a
dataset and steps no environment while it trains, so one way to step them is enough.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

DATASET = "kills/cartpole-v0"
VECTORIZATIONS = ("native", "sync", "async")

REPLAY = {"batch_size": 32, "learning_starts": 64, "train_every": 4}
DQN = {**REPLAY, "steps_per_epoch": 64, "target_every": 20, "n_step": 3}
PPO = {"steps_per_epoch": 128, "rollout_steps": 16, "batch_size": 32, "passes": 2}
PRIORITIZED = {"prioritized": {}}


@dataclass(frozen=True)
class KillCase:
    """One row of the table with one way to step environments: the settings of its experiment."""

    row: str
    algo: str
    train: dict[str, Any]
    vectorization: str = "native"
    env_id: str = "CartPole-v1"
    network: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.row.replace(', ', '-')}-{self.vectorization}"

    @property
    def experiment(self) -> dict[str, Any]:
        """Everything that a resume must restore is in play: evaluation, roll-back grid, checkpoints by the clock."""
        return {
            "name": self.name,
            "env": {"id": self.env_id, "num_envs": 2, "seed": 7, "vectorization": self.vectorization},
            "policy": {"algo": self.algo, "network": {"hidden_sizes": [16], **self.network}},
            "train": {**self.train, "epochs": self.train["epochs"] // (2 if self.vectorization == "async" else 1)},
            "buffer": {"capacity": 512},
            "eval": {"every_epochs": 8, "episodes": 2, "final_episodes": 2},
            "ckpt": {"every_seconds": 0.15, "keep_last": 2},
            "guardrails": {"rollback_every_epochs": 10},
        }

    @property
    def identity(self) -> str:
        """What the result depends on, besides the code."""
        return hashlib.sha256(json.dumps(self.experiment, sort_keys=True).encode()).hexdigest()[:16]


ROWS = (
    KillCase("ppo", "ppo", {**PPO, "epochs": 30}, network={"normalize_observations": True}),
    KillCase(
        "ppo, gru", "ppo", {**PPO, "epochs": 20, "sequence_length": 8}, network={"memory": "gru", "memory_size": 8}
    ),
    KillCase(
        "a2c",
        "a2c",
        {"epochs": 30, "steps_per_epoch": 120, "rollout_steps": 5, "normalize_rewards": True},
        network={"normalize_observations": True},
    ),
    KillCase("dqn", "dqn", {**DQN, "epochs": 30}),
    KillCase("dqn, prioritised", "dqn", {**DQN, **PRIORITIZED, "epochs": 25}),
    KillCase("qrdqn", "qrdqn", {**DQN, **PRIORITIZED, "epochs": 25, "quantiles": 8, "dueling": True}),
    KillCase(
        "sac",
        "sac",
        {**REPLAY, "epochs": 20, "steps_per_epoch": 64, "train_every": 8, "gradient_steps": 3, "n_step": 3},
        env_id="Pendulum-v1",
        network={"exploration": "state_dependent", "exploration_hold": 8},
    ),
    KillCase(
        "td3",
        "td3",
        {
            **REPLAY,
            "epochs": 25,
            "steps_per_epoch": 64,
            "random_steps": 80,
            "train_every": 8,
            "gradient_steps": 3,
            "noise": "ornstein_uhlenbeck",
            "lr_schedule": "linear",
        },
        env_id="Pendulum-v1",
    ),
    KillCase(
        "mbmpc",
        "mbmpc",
        {
            "epochs": 20,
            "steps_per_epoch": 16,
            "batch_size": 16,
            "learning_starts": 24,
            "train_every": 8,
            "gradient_steps": 2,
            "n_step": 3,
            "dynamics": {"members": 2, "hidden_sizes": [8], "noise": True},
            "planner": {"kind": "guided", "horizon": 3, "candidates": 8, "iterations": 2, "policy_candidates": 2},
        },
    ),
    KillCase(
        "diffusion",
        "diffusion",
        {
            "epochs": 12,
            "steps_per_epoch": 32,
            "batch_size": 8,
            "learning_starts": 40,
            "train_every": 8,
            "gradient_steps": 2,
            "gamma": 0.95,
            "behaviour": "own",
            "dynamics": {"kind": "ensemble", "members": 2},
            "planner": {
                "horizon": 4,
                "candidates": 8,
                "levels": 3,
                "select": "mean",
                "kl_budget": 0.5,
                "value": "own",
            },
        },
    ),
)
CLONING = KillCase(
    "bc",
    "bc",
    {"epochs": 40, "steps_per_epoch": 1024, "batch_size": 32, "dataset": DATASET},
    network={"normalize_observations": True},
)
CASES = (
    *(KillCase(**{**vars(row), "vectorization": way}) for way in VECTORIZATIONS for row in ROWS),
    CLONING,
)
