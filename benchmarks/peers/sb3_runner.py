"""Stable-Baselines3 (and SB3 Contrib) as documented: `make_vec_env` (DummyVecEnv with Monitor) and `learn`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from measure import Job, Window, answer, job, since
from sb3_contrib import QRDQN
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv

ENDLESS = 10**9
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


class Marker(BaseCallback):
    """A rollout starts when the update before it is done."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window

    def _on_rollout_start(self) -> None:
        self.window.mark(self.num_timesteps)

    def _on_step(self) -> bool:
        return not self.window.done


class Solve(BaseCallback):
    """Evaluates the greedy policy every so many steps, on as many environments as episodes: its fastest way."""

    def __init__(self, spec: Job) -> None:
        super().__init__()
        self.spec = spec
        self.env = make_vec_env(spec["env_id"], spec["eval_episodes"], seed=spec["seed"] + 10_000)
        self.seconds: float | None = None
        self.value = float("nan")
        self.steps = 0

    def _on_rollout_start(self) -> None:
        if not self.num_timesteps or self.num_timesteps % self.spec["eval_every"] or self.seconds is not None:
            return
        mean, _ = evaluate_policy(self.model, self.env, n_eval_episodes=self.spec["eval_episodes"])
        self.value, self.steps = float(mean), self.num_timesteps
        if self.value >= self.spec["threshold"]:
            self.seconds = since(self.spec["started"])

    def _on_step(self) -> bool:
        return self.seconds is None


def ppo(spec: Job) -> BaseAlgorithm:
    return PPO(
        "MlpPolicy",
        envs(spec),
        n_steps=spec["rollout_steps"],
        batch_size=spec["batch_size"],
        n_epochs=spec["passes"],
        gae_lambda=spec["gae_lambda"],
        clip_range=spec["clip"],
        vf_coef=spec["value_coef"],
        ent_coef=spec["entropy_coef"],
        max_grad_norm=spec["max_grad_norm"],
        **shared(spec),
    )


def a2c(spec: Job) -> BaseAlgorithm:
    return A2C(
        "MlpPolicy",
        envs(spec),
        n_steps=spec["rollout_steps"],
        gae_lambda=spec["gae_lambda"],
        vf_coef=spec["value_coef"],
        ent_coef=spec["entropy_coef"],
        max_grad_norm=spec["max_grad_norm"],
        rms_prop_eps=spec["rms_eps"],
        **shared(spec),
    )


def dqn(spec: Job) -> BaseAlgorithm:
    return _q_learning(DQN, spec, shared(spec))


def qrdqn(spec: Job) -> BaseAlgorithm:
    given = shared(spec)
    given["policy_kwargs"]["n_quantiles"] = spec["quantiles"]
    return _q_learning(QRDQN, spec, given)


def _q_learning(kind: type[BaseAlgorithm], spec: Job, given: dict[str, Any]) -> BaseAlgorithm:
    return kind(
        "MlpPolicy",
        envs(spec),
        target_update_interval=spec["target_every_steps"],
        exploration_initial_eps=spec["epsilon"],
        exploration_final_eps=spec["epsilon"],
        max_grad_norm=spec["max_grad_norm"],
        **replay(spec),
        **given,
    )


def sac(spec: Job) -> BaseAlgorithm:
    return SAC("MlpPolicy", envs(spec), tau=spec["tau"], **replay(spec), **shared(spec))


def td3(spec: Job) -> BaseAlgorithm:
    env = envs(spec)
    size = env.action_space.shape[0]
    return TD3(
        "MlpPolicy",
        env,
        tau=spec["tau"],
        policy_delay=spec["policy_delay"],
        target_policy_noise=spec["target_noise"],
        target_noise_clip=spec["target_noise_clip"],
        action_noise=NormalActionNoise(np.zeros(size), np.full(size, spec["noise_std"])),
        **replay(spec),
        **shared(spec),
    )


def envs(spec: Job) -> VecEnv:
    return make_vec_env(spec["env_id"], spec["num_envs"], seed=spec["seed"])


def replay(spec: Job) -> dict[str, Any]:
    return {
        "batch_size": spec["batch_size"],
        "buffer_size": spec["buffer"],
        "learning_starts": spec["learning_starts"],
        "train_freq": spec["train_every"],
        "gradient_steps": 1,
    }


def shared(spec: Job) -> dict[str, Any]:
    return {
        "learning_rate": spec["lr"],
        "gamma": spec["gamma"],
        "policy_kwargs": {"net_arch": spec["hidden_sizes"], "activation_fn": ACTIVATIONS[spec["activation"]]},
        "device": "cpu",
        "seed": spec["seed"],
    }


BUILD = {"ppo": ppo, "a2c": a2c, "dqn": dqn, "qrdqn": qrdqn, "sac": sac, "td3": td3}


def main() -> None:
    spec = job()
    torch.set_num_threads(spec["threads"])
    model = BUILD[spec["algo"]](spec)
    if spec["what"] == "solve":
        solve = Solve(spec)
        model.learn(spec["max_steps"], callback=solve)
        answer(seconds=solve.seconds, env_steps=solve.steps, value=solve.value)
    else:
        window = Window(spec["seconds"], spec["warmup_steps"])
        model.learn(ENDLESS, callback=Marker(window))
        answer(**window.result())


if __name__ == "__main__":
    main()
