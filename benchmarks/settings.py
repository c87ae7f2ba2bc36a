"""The hyper-parameters of every row, written once and handed to each side as JSON. Standard library only.

They are the ones the speed targets are stated for, so that rows compare with those measured before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Settings = dict[str, Any]

OURS, REFERENCE, CLEANRL = "rlstudio", "sb3", "cleanrl"
TITLES = {
    "rlstudio": "RLStudio",
    "sb3": "Stable-Baselines3",
    "skrl": "skrl",
    "tianshou": "Tianshou",
    "torchrl": "TorchRL",
    "cleanrl": "CleanRL",
}
WORLDS = {
    "native": "own NumPy world",
    "sync": "Gymnasium envs, one by one",
    "vector": "Gymnasium's vectorised CartPole",
}
"""How a side runs its environments, as the tables say it."""

PPO: Settings = {
    "algo": "ppo",
    "env_id": "CartPole-v1",
    "num_envs": 8,
    "rollout_steps": 128,
    "passes": 4,
    "batch_size": 256,
    "hidden_sizes": [64, 64],
    "activation": "tanh",
    "lr": 1e-3,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip": 0.2,
    "value_coef": 0.5,
    "entropy_coef": 0.0,
    "max_grad_norm": 0.5,
    "warmup_steps": 2 * 8 * 128,  # two iterations
}

PPO_WIDE: Settings = {**PPO, "num_envs": 64, "rollout_steps": 64, "batch_size": 1024, "warmup_steps": 2 * 64 * 64}

DQN: Settings = {
    "algo": "dqn",
    "env_id": "CartPole-v1",
    "num_envs": 1,
    "batch_size": 128,
    "hidden_sizes": [120, 84],
    "activation": "relu",
    "lr": 2.5e-4,
    "gamma": 0.99,
    "buffer": 50_000,
    "learning_starts": 500,
    "train_every": 4,  # one gradient step per so many environment steps
    "target_every_steps": 500,
    # Constant, and low: while it is high some libraries never ask the network, which is not the steady state.
    "epsilon": 0.05,
    "max_grad_norm": 10.0,
    "warmup_steps": 1000,
}

PPO_PENDULUM: Settings = {**PPO, "env_id": "Pendulum-v1"}

A2C: Settings = {
    "algo": "a2c",
    "env_id": "CartPole-v1",
    "num_envs": 8,
    "rollout_steps": 5,
    "batch_size": 8 * 5,  # one update with the whole rollout
    "hidden_sizes": [64, 64],
    "activation": "tanh",
    "lr": 7e-4,
    "gamma": 0.99,
    "gae_lambda": 1.0,
    "value_coef": 0.5,
    "entropy_coef": 0.0,
    "max_grad_norm": 0.5,
    "rms_alpha": 0.99,
    "rms_eps": 1e-5,
    "warmup_steps": 50 * 8 * 5,
}

QRDQN: Settings = {**DQN, "algo": "qrdqn", "quantiles": 200}

SAC: Settings = {
    "algo": "sac",
    "env_id": "Pendulum-v1",
    "num_envs": 1,
    "batch_size": 256,
    "hidden_sizes": [256, 256],
    "activation": "relu",
    "lr": 1e-3,
    "gamma": 0.99,
    "tau": 0.005,
    "buffer": 100_000,
    "learning_starts": 100,
    "train_every": 1,
    "max_grad_norm": None,
    "warmup_steps": 200,
}

TD3: Settings = {
    **SAC,
    "algo": "td3",
    "policy_delay": 2,
    # In units of half the action range, as the paper counts them.
    "noise_std": 0.1,
    "target_noise": 0.2,
    "target_noise_clip": 0.5,
}

SOLVE: Settings = {
    **PPO,
    "eval_every": 4096,
    "eval_episodes": 10,
    "threshold": 475.0,
    "max_steps": 409_600,
}


@dataclass(frozen=True)
class Entry:
    """One line of a table: a side, and how it runs its environments."""

    side: str
    vectorization: str = "sync"
    target: float | None = None  # wanted ratio to Stable-Baselines3
    title: str = ""  # where the algorithm comes in a package of its own

    @property
    def key(self) -> str:
        return f"{self.side}/{self.vectorization}"


@dataclass(frozen=True)
class Row:
    """One comparison: the same settings for every entry."""

    key: str
    title: str
    settings: Settings
    entries: tuple[Entry, ...]
    seconds: float = 3.0  # least length of the window
    reps: int = 3  # of ours and of the reference, between which the promise is
    peer_reps: int = 3  # of the others


REFERENCE_ENTRY = Entry(REFERENCE)
CONTRIB = Entry(REFERENCE, title="SB3 Contrib")
PEERS = (REFERENCE_ENTRY, Entry("skrl"), Entry("tianshou"), Entry("torchrl"))
SCRIPTS = Entry(CLEANRL)
VECTORISED_SKRL = Entry("skrl", "vector")
SMALL_REPLAY = "1 env, one update of 256 rows per step, 256-256 relu, buffer 100,000"

ROWS: tuple[Row, ...] = (
    Row(
        "ppo",
        "PPO, CartPole-v1, 8 envs x 128 steps, 4 passes, minibatch 256, 64-64 tanh",
        PPO,
        (Entry(OURS, "native", 2.7), *PEERS, Entry(OURS, "sync", 2.2), VECTORISED_SKRL, SCRIPTS),
    ),
    Row(
        "ppo_wide",
        "PPO, CartPole-v1, 64 envs x 64 steps, 4 passes, minibatch 1024, 64-64 tanh",
        PPO_WIDE,
        (Entry(OURS, "native", 2.4), *PEERS, Entry(OURS, "sync"), VECTORISED_SKRL, SCRIPTS),
    ),
    Row(
        "dqn",
        "DQN, CartPole-v1, 1 env, one update of 128 rows per 4 steps, 120-84 relu, buffer 50,000",
        DQN,
        (Entry(OURS, "native", 2.1), *PEERS, Entry(OURS, "sync"), SCRIPTS),
    ),
    Row(
        "ppo_pendulum",
        "PPO, Pendulum-v1 (continuous), 8 envs x 128 steps, 4 passes, minibatch 256, 64-64 tanh",
        PPO_PENDULUM,
        (Entry(OURS, "native", 2.4), *PEERS, SCRIPTS),
        reps=5,
    ),
    Row(
        "a2c",
        "A2C, CartPole-v1, 8 envs x 5 steps, RMSprop, 64-64 tanh",
        A2C,
        (Entry(OURS, "native", 2.0), *PEERS, VECTORISED_SKRL),
        reps=5,
    ),
    Row(
        "qrdqn",
        "QR-DQN, CartPole-v1, 1 env, one update of 128 rows per 4 steps, 200 quantiles, 120-84 relu, buffer 50,000",
        QRDQN,
        (Entry(OURS, "native", 1.5), CONTRIB, Entry("tianshou")),
        reps=5,
    ),
    Row(
        "sac",
        f"SAC, Pendulum-v1, {SMALL_REPLAY}",
        SAC,
        (Entry(OURS, "native", 1.6), *PEERS, SCRIPTS),
        seconds=5.0,
        reps=5,
    ),
    Row(
        "td3",
        f"TD3, Pendulum-v1, {SMALL_REPLAY}",
        TD3,
        (Entry(OURS, "native", 1.5), *PEERS, SCRIPTS),
        seconds=5.0,
        reps=5,
    ),
)

SOLVE_ROW = Row(
    "solve",
    "PPO, CartPole-v1: process start to a mean evaluation of 475",
    SOLVE,
    (Entry(OURS, "native", 0.7), REFERENCE_ENTRY),
)
