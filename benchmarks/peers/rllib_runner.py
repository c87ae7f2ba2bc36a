"""RLlib's PPO with env runners as Ray actors, as its documentation shows: the new API stack, one local learner."""

from __future__ import annotations

import os
from typing import Any

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_DEDUP_LOGS": "0"}

import ray
from measure import Job, Window, answer, job, since
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def ppo(spec: Job) -> PPOConfig:
    runners = spec["rollout"]["workers"]
    network = DefaultModelConfig(
        fcnet_hiddens=spec["hidden_sizes"], fcnet_activation=spec["activation"], vf_share_layers=False
    )
    return (
        PPOConfig()
        .environment(spec["env_id"])
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=spec["num_envs"] // max(1, runners),
            rollout_fragment_length=spec["rollout_steps"],
        )
        .training(
            train_batch_size_per_learner=spec["num_envs"] * spec["rollout_steps"],
            minibatch_size=spec["batch_size"],
            num_epochs=spec["passes"],
            lr=spec["lr"],
            gamma=spec["gamma"],
            lambda_=spec["gae_lambda"],
            clip_param=spec["clip"],
            vf_clip_param=float("inf"),
            vf_loss_coeff=spec["value_coef"],
            entropy_coeff=spec["entropy_coef"],
            grad_clip=spec["max_grad_norm"],
            use_kl_loss=False,
        )
        .rl_module(model_config=network)
        .evaluation(
            evaluation_interval=None,
            evaluation_num_env_runners=int(spec["what"] == "solve"),
            evaluation_duration=spec.get("eval_episodes", 10),
            evaluation_duration_unit="episodes",
            evaluation_config=PPOConfig.overrides(explore=False, num_envs_per_env_runner=10),
        )
        .debugging(seed=spec["seed"], log_level="ERROR")
    )


def steps_of(result: dict[str, Any]) -> int:
    return int(result["env_runners"]["num_env_steps_sampled_lifetime"])


def rate(spec: Job, algo: PPO) -> dict[str, Any]:
    window = Window(spec["seconds"], spec["warmup_steps"])
    while not window.mark(steps_of(algo.train())):
        pass
    return window.result()


def solve(spec: Job, algo: PPO) -> dict[str, Any]:
    steps, judged, value = 0, 0, float("nan")
    while steps < spec["max_steps"]:
        steps = steps_of(algo.train())
        if steps - judged < spec["eval_every"]:
            continue
        judged = steps
        value = float(algo.evaluate()["env_runners"]["episode_return_mean"])
        if value >= spec["threshold"]:
            return {"seconds": since(spec["started"]), "env_steps": steps, "value": value}
    return {"seconds": None, "env_steps": steps, "value": value}


def start() -> None:
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def main() -> None:
    spec = job()
    start()
    algo = ppo(spec).build_algo()
    found = (solve if spec["what"] == "solve" else rate)(spec, algo)
    algo.stop()
    answer(**found)


if __name__ == "__main__":
    main()
