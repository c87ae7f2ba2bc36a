"""The cells of the learning table: a config that ships with RLStudio, what was published, and rl-zoo3's settings.

Published scores are rl-zoo3's `benchmark.md`: one run, deterministic evaluation, mean and standard deviation. Its
hyper-parameters are those of rl-zoo3's `hyperparams/ppo.yml` and `dqn.yml` for the same budgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SOURCE = "rl-zoo3 benchmark.md"


@dataclass(frozen=True)
class Published:
    mean: float
    std: float
    steps: str

    def __str__(self) -> str:
        return f"{self.mean:g} ± {self.std:g} ({self.steps})"


@dataclass(frozen=True)
class Cell:
    """One line: what is trained, and what counts as solved (Gymnasium's own threshold)."""

    key: str
    config: str
    threshold: float
    published: Published | None = None
    zoo: dict[str, Any] | None = None


PPO_CARTPOLE_ZOO: dict[str, Any] = {
    "algo": "ppo",
    "env_id": "CartPole-v1",
    "n_envs": 8,
    "normalize": False,
    "linear": ["learning_rate", "clip_range"],
    "model": {
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": "lin_0.001",
        "clip_range": "lin_0.2",
    },
}

DQN_CARTPOLE_ZOO: dict[str, Any] = {
    "algo": "dqn",
    "env_id": "CartPole-v1",
    "n_envs": 1,
    "normalize": False,
    "linear": [],
    "model": {
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
}

PPO_ACROBOT_ZOO: dict[str, Any] = {
    "algo": "ppo",
    "env_id": "Acrobot-v1",
    "n_envs": 16,
    "normalize": True,
    "linear": [],
    "model": {"n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
}

DQN_ACROBOT_ZOO: dict[str, Any] = {
    "algo": "dqn",
    "env_id": "Acrobot-v1",
    "n_envs": 1,
    "normalize": False,
    "linear": [],
    "model": {
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 0,
        "gamma": 0.99,
        "target_update_interval": 250,
        "train_freq": 4,
        "gradient_steps": -1,
        "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
}

CELLS: tuple[Cell, ...] = (
    Cell("ppo_cartpole_mvp", "configs/ppo/cartpole_mvp.yaml", 475.0),  # a promise of its own: every seed solves it
    Cell("ppo_cartpole", "configs/ppo/cartpole.yaml", 475.0, Published(500, 0, "100k"), PPO_CARTPOLE_ZOO),
    Cell("dqn_cartpole", "configs/dqn/cartpole.yaml", 475.0, Published(500, 0, "50k"), DQN_CARTPOLE_ZOO),
    Cell("ppo_acrobot", "configs/ppo/acrobot.yaml", -100.0, Published(-73.5, 18.2, "1M"), PPO_ACROBOT_ZOO),
    Cell("dqn_acrobot", "configs/dqn/acrobot.yaml", -100.0, Published(-76.6, 11.8, "100k"), DQN_ACROBOT_ZOO),
)
