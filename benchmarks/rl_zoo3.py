"""rl-zoo3's hyper-parameters (its `hyperparams/*.yml`) for the cells that Stable-Baselines3 is trained on here."""

from __future__ import annotations

from typing import Any

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
