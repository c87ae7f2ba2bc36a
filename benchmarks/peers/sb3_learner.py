"""One seed of Stable-Baselines3 with the hyper-parameters of the job, then the last policy is judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from episodes import play
from measure import Job, answer, job
from sb3_contrib import QRDQN
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

ALGOS = {"ppo": PPO, "a2c": A2C, "dqn": DQN, "qrdqn": QRDQN, "sac": SAC, "td3": TD3}


def linear(value: str | float) -> float | Callable[[float], float]:
    """rl-zoo3 writes `lin_0.001` for a value that falls to zero over the run."""
    if isinstance(value, str):
        start = float(value.removeprefix("lin_"))
        return lambda remaining: remaining * start
    return value


def make_single(zoo: dict[str, Any]) -> gymnasium.Env:
    """One environment in its wrappers, from the inside out; those of MiniGrid come with it."""
    names = zoo.get("wrappers", [])
    if zoo["env_id"].startswith("MiniGrid"):
        import minigrid.wrappers as minigrid_wrappers
    env = gymnasium.make(zoo["env_id"])
    for name in names:
        home = gymnasium.wrappers if hasattr(gymnasium.wrappers, name) else minigrid_wrappers
        env = getattr(home, name)(env)
    return env


def make_env(spec: Job) -> VecEnv:
    zoo = spec["zoo"]
    env = make_vec_env(lambda: make_single(zoo), zoo["n_envs"], seed=spec["seed"])
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

    def act(observation: Any) -> Any:
        rows = np.asarray(observation)[None]
        rows = env.normalize_obs(rows) if isinstance(env, VecNormalize) else rows
        action = model.predict(rows, deterministic=True)[0][0]
        return int(action) if isinstance(env.action_space, gymnasium.spaces.Discrete) else action

    returns = play(lambda: act, make_single(zoo), spec["episodes"], spec["first_seed"])
    answer(returns=returns, env_steps=model.num_timesteps, seconds=round(seconds, 1))


if __name__ == "__main__":
    main()
