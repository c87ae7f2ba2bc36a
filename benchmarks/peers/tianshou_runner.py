"""Tianshou as its examples show it: `DummyVectorEnv`, collector, trainer; without test episodes and progress bar."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium
import torch
from measure import Done, Job, Window, answer, job
from tianshou.algorithm import DQN, PPO
from tianshou.algorithm.algorithm_base import Algorithm
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
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
    actor = DiscreteActor(preprocess_net=network(spec, env), action_shape=env.action_space.n, softmax_output=False)
    return PPO(
        policy=DiscreteActorPolicy(actor=actor, dist_fn=logits_distribution, action_space=env.action_space),
        critic=DiscreteCritic(preprocess_net=network(spec, env)),
        optim=AdamOptimizerFactory(lr=spec["lr"]),
        eps_clip=spec["clip"],
        vf_coef=spec["value_coef"],
        ent_coef=spec["entropy_coef"],
        max_grad_norm=spec["max_grad_norm"],
        gae_lambda=spec["gae_lambda"],
        gamma=spec["gamma"],
    )


def logits_distribution(logits: torch.Tensor) -> torch.distributions.Categorical:
    return torch.distributions.Categorical(logits=logits)


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


def run_ppo(algorithm: Algorithm, collector: Collector, spec: Job, **shared: Any) -> None:
    collected = spec["rollout_steps"] * spec["num_envs"]
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            batch_size=spec["batch_size"],
            update_step_num_repetitions=spec["passes"],
            collection_step_num_env_steps=collected,
            **shared,
        )
    )


def run_dqn(algorithm: Algorithm, collector: Collector, spec: Job, **shared: Any) -> None:
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


def main() -> None:
    spec = job()
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(spec["seed"])
    window = Window(spec["seconds"], spec["warmup_steps"])

    def mark(epoch: int, env_step: int) -> None:
        """Tianshou calls it before each collection, that is after the update before it."""
        if window.mark(env_step):
            raise Done

    build, train = {"ppo": (ppo, run_ppo), "dqn": (dqn, run_dqn)}[spec["algo"]]
    algorithm = build(spec, gymnasium.make(spec["env_id"]))
    envs = DummyVectorEnv([lambda: gymnasium.make(spec["env_id"]) for _ in range(spec["num_envs"])])
    envs.seed(spec["seed"])
    size = spec.get("buffer") or spec["rollout_steps"] * spec["num_envs"]
    collector = Collector(algorithm, envs, VectorReplayBuffer(size, spec["num_envs"]), exploration_noise=True)
    with contextlib.suppress(Done):
        train(algorithm, collector, spec, training_fn=mark, max_epochs=10**6, verbose=False, show_progress=False)
    answer(**window.result())


if __name__ == "__main__":
    main()
