"""One seed of Stable-Baselines3 with rl-zoo3's hyper-parameters, then the last policy is judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from episodes import play
from measure import Job, answer, job
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

ALGOS = {"ppo": PPO, "dqn": DQN}


def linear(value: str | float) -> float | Callable[[float], float]:
    """rl-zoo3 writes `lin_0.001` for a value that falls to zero over the run."""
    if isinstance(value, str):
        start = float(value.removeprefix("lin_"))
        return lambda remaining: remaining * start
    return value


def make_env(spec: Job) -> VecEnv:
    zoo = spec["zoo"]
    env = make_vec_env(zoo["env_id"], zoo["n_envs"], seed=spec["seed"])
    return VecNormalize(env, gamma=zoo["model"]["gamma"]) if zoo["normalize"] else env


def main() -> None:
    spec = job()
    torch.set_num_threads(spec["threads"])
    zoo: dict[str, Any] = spec["zoo"]
    env = make_env(spec)
    options = {name: linear(value) if name in zoo["linear"] else value for name, value in zoo["model"].items()}
    began = time.perf_counter()
    model = ALGOS[zoo["algo"]]("MlpPolicy", env, seed=spec["seed"], device="cpu", **options)
    model.learn(spec["env_steps"])
    seconds = time.perf_counter() - began

    def act(observation: np.ndarray) -> int:
        rows = env.normalize_obs(observation[None]) if isinstance(env, VecNormalize) else observation[None]
        return int(model.predict(rows, deterministic=True)[0][0])

    returns = play(lambda: act, gymnasium.make(zoo["env_id"]), spec["episodes"], spec["first_seed"])
    answer(returns=returns, env_steps=model.num_timesteps, seconds=round(seconds, 1))


if __name__ == "__main__":
    main()
