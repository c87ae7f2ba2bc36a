"""Tianshou as its examples show it: `DummyVectorEnv`, collector, trainer; without test episodes and progress bar."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium
import numpy as np
import torch
from measure import Done, Job, Window, answer, job
from tianshou.algorithm import A2C, DQN, PPO, QRDQN, SAC, TD3
from tianshou.algorithm.algorithm_base import Algorithm
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.qrdqn import QRDQNPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, RMSpropOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorDeterministic, ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


def network(spec: Job, env: gymnasium.Env, **outputs: Any) -> Net:
    return Net(
        state_shape=env.observation_space.shape,
        hidden_sizes=spec["hidden_sizes"],
        activation=ACTIVATIONS[spec["activation"]],
        **outputs,
    )


def ppo(spec: Job, env: gymnasium.Env) -> Algorithm:
    return PPO(
        optim=AdamOptimizerFactory(lr=spec["lr"]),
        eps_clip=spec["clip"],
        **policy_and_value(spec, env),
        **on_policy(spec),
    )


def a2c(spec: Job, env: gymnasium.Env) -> Algorithm:
    return A2C(
        optim=RMSpropOptimizerFactory(lr=spec["lr"], alpha=spec["rms_alpha"], eps=spec["rms_eps"]),
        **policy_and_value(spec, env),
        **on_policy(spec),
    )


def on_policy(spec: Job) -> dict[str, Any]:
    return {
        "vf_coef": spec["value_coef"],
        "ent_coef": spec["entropy_coef"],
        "max_grad_norm": spec["max_grad_norm"],
        "gae_lambda": spec["gae_lambda"],
        "gamma": spec["gamma"],
    }


def policy_and_value(spec: Job, env: gymnasium.Env) -> dict[str, Any]:
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        actor = DiscreteActor(preprocess_net=network(spec, env), action_shape=space.n, softmax_output=False)
        policy = DiscreteActorPolicy(actor=actor, dist_fn=logits_distribution, action_space=space)
        return {"policy": policy, "critic": DiscreteCritic(preprocess_net=network(spec, env))}
    actor = ContinuousActorProbabilistic(preprocess_net=network(spec, env), action_shape=space.shape, unbounded=True)
    policy = ProbabilisticActorPolicy(actor=actor, dist_fn=normal_distribution, action_space=space)
    return {"policy": policy, "critic": ContinuousCritic(preprocess_net=network(spec, env))}


def logits_distribution(logits: torch.Tensor) -> torch.distributions.Categorical:
    return torch.distributions.Categorical(logits=logits)


def normal_distribution(loc_scale: tuple[torch.Tensor, torch.Tensor]) -> torch.distributions.Distribution:
    loc, scale = loc_scale
    return torch.distributions.Independent(torch.distributions.Normal(loc, scale), 1)


def dqn(spec: Job, env: gymnasium.Env) -> Algorithm:
    return DQN(
        policy=DiscreteQLearningPolicy(
            model=network(spec, env, action_shape=env.action_space.n),
            action_space=env.action_space,
            eps_training=spec["epsilon"],
        ),
        optim=AdamOptimizerFactory(lr=spec["lr"]),
        gamma=spec["gamma"],
        target_update_freq=spec["target_every_steps"] // spec["train_every"],
        is_double=False,
        huber_loss_delta=1.0,
    )


def qrdqn(spec: Job, env: gymnasium.Env) -> Algorithm:
    return QRDQN(
        policy=QRDQNPolicy(
            model=network(spec, env, action_shape=env.action_space.n, num_atoms=spec["quantiles"]),
            action_space=env.action_space,
            eps_training=spec["epsilon"],
        ),
        optim=AdamOptimizerFactory(lr=spec["lr"]),
        gamma=spec["gamma"],
        num_quantiles=spec["quantiles"],
        target_update_freq=spec["target_every_steps"] // spec["train_every"],
    )


def sac(spec: Job, env: gymnasium.Env) -> Algorithm:
    shape = env.action_space.shape
    actor = ContinuousActorProbabilistic(
        preprocess_net=network(spec, env), action_shape=shape, unbounded=True, conditioned_sigma=True
    )
    alpha = AutoAlpha(-float(np.prod(shape)), 0.0, AdamOptimizerFactory(lr=spec["lr"]))
    policy = SACPolicy(actor=actor, action_space=env.action_space)
    return SAC(policy=policy, alpha=alpha, **twin_values(spec, env))


def td3(spec: Job, env: gymnasium.Env) -> Algorithm:
    high = float(env.action_space.high[0])
    actor = ContinuousActorDeterministic(
        preprocess_net=network(spec, env), action_shape=env.action_space.shape, max_action=high
    )
    noise = GaussianNoise(sigma=spec["noise_std"] * high)
    return TD3(
        policy=ContinuousDeterministicPolicy(actor=actor, exploration_noise=noise, action_space=env.action_space),
        policy_noise=spec["target_noise"] * high,
        noise_clip=spec["target_noise_clip"] * high,
        update_actor_freq=spec["policy_delay"],
        **twin_values(spec, env),
    )


def twin_values(spec: Job, env: gymnasium.Env) -> dict[str, Any]:
    names = ("critic", "critic2")
    networks = {
        name: ContinuousCritic(preprocess_net=network(spec, env, action_shape=env.action_space.shape, concat=True))
        for name in names
    }
    optimizers = {f"{name}_optim": AdamOptimizerFactory(lr=spec["lr"]) for name in ("policy", *names)}
    return {**networks, **optimizers, "tau": spec["tau"], "gamma": spec["gamma"]}


def run_on_policy(algorithm: Algorithm, collector: Collector, spec: Job, **shared: Any) -> None:
    collected = spec["rollout_steps"] * spec["num_envs"]
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            batch_size=spec["batch_size"],
            update_step_num_repetitions=spec.get("passes", 1),
            collection_step_num_env_steps=collected,
            **shared,
        )
    )


def run_off_policy(algorithm: Algorithm, collector: Collector, spec: Job, **shared: Any) -> None:
    collector.reset()
    collector.collect(n_step=spec["learning_starts"])
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            batch_size=spec["batch_size"],
            collection_step_num_env_steps=spec["train_every"],
            update_step_num_gradient_steps_per_sample=1 / spec["train_every"],
            **shared,
        )
    )


BUILD = {"ppo": ppo, "a2c": a2c, "dqn": dqn, "qrdqn": qrdqn, "sac": sac, "td3": td3}


def main() -> None:
    spec = job()
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(spec["seed"])
    window = Window(spec["seconds"], spec["warmup_steps"])

    def mark(epoch: int, env_step: int) -> None:
        """Tianshou calls it before each collection, that is after the update before it."""
        if window.mark(env_step):
            raise Done

    train = run_off_policy if "buffer" in spec else run_on_policy
    algorithm = BUILD[spec["algo"]](spec, gymnasium.make(spec["env_id"]))
    envs = DummyVectorEnv([lambda: gymnasium.make(spec["env_id"]) for _ in range(spec["num_envs"])])
    envs.seed(spec["seed"])
    size = spec.get("buffer") or spec["rollout_steps"] * spec["num_envs"]
    collector = Collector(algorithm, envs, VectorReplayBuffer(size, spec["num_envs"]), exploration_noise=True)
    with contextlib.suppress(Done):
        train(algorithm, collector, spec, training_fn=mark, max_epochs=10**6, verbose=False, show_progress=False)
    answer(**window.result())


if __name__ == "__main__":
    main()
