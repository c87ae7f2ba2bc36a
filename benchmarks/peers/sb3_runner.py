"""Stable-Baselines3 as its documentation shows it: `make_vec_env` (DummyVecEnv with Monitor) and `learn`."""

from __future__ import annotations

from typing import Any

import torch
from measure import Job, Window, answer, job, since
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

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
        make_vec_env(spec["env_id"], spec["num_envs"], seed=spec["seed"]),
        n_steps=spec["rollout_steps"],
        batch_size=spec["batch_size"],
        n_epochs=spec["passes"],
        gae_lambda=spec["gae_lambda"],
        clip_range=spec["clip"],
        vf_coef=spec["value_coef"],
        ent_coef=spec["entropy_coef"],
        **shared(spec),
    )


def dqn(spec: Job) -> BaseAlgorithm:
    return DQN(
        "MlpPolicy",
        make_vec_env(spec["env_id"], spec["num_envs"], seed=spec["seed"]),
        batch_size=spec["batch_size"],
        buffer_size=spec["buffer"],
        learning_starts=spec["learning_starts"],
        train_freq=spec["train_every"],
        gradient_steps=1,
        target_update_interval=spec["target_every_steps"],
        exploration_initial_eps=spec["epsilon"],
        exploration_final_eps=spec["epsilon"],
        **shared(spec),
    )


def shared(spec: Job) -> dict[str, Any]:
    return {
        "learning_rate": spec["lr"],
        "gamma": spec["gamma"],
        "max_grad_norm": spec["max_grad_norm"],
        "policy_kwargs": {"net_arch": spec["hidden_sizes"], "activation_fn": ACTIVATIONS[spec["activation"]]},
        "device": "cpu",
        "seed": spec["seed"],
    }


def main() -> None:
    spec = job()
    torch.set_num_threads(spec["threads"])
    model = {"ppo": ppo, "dqn": dqn}[spec["algo"]](spec)
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
