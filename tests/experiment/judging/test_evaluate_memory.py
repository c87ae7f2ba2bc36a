"""Evaluating a policy that remembers: every episode from an empty memory, whoever played before it in the same env."""

import numpy as np
import torch

from rlstudio.agents.policy import PolicyAgent
from rlstudio.core.rng import Rng
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_single, make_vec_env
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.judging.video import film_seeds
from rlstudio.models.build import build_policy_value
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.flat import flatten

CFG = EnvConfig(id="CartPole-v1", max_episode_steps=60)


def agent() -> PolicyAgent:
    spaces = make_vec_env(CFG, num_envs=1).spaces
    model = build_policy_value(spaces, NetworkConfig(memory="lstm", memory_size=8), Rng(0))
    data = flatten(model).data
    data.add_(torch.randn(data.shape, generator=torch.Generator().manual_seed(3)))  # far from uniform
    return PolicyAgent(model, spaces)


def lengths_one_by_one(remembering: PolicyAgent, seeds) -> list[int]:
    lengths = []
    for seed in seeds:
        env, episode, over, steps = make_single(CFG), remembering.episode(), False, 0
        observation, _ = env.reset(seed=seed)
        while not over:
            observation, _, terminated, truncated, _ = env.step(int(episode.act(np.float32(observation))))
            over, steps = terminated or truncated, steps + 1
        lengths.append(steps)
    return lengths


def test_episodes_side_by_side_and_in_turn_are_those_played_alone():
    remembering = agent()
    evaluation = evaluate(remembering, CFG, episodes=40, seed=1)  # 14 envs play up to three episodes each
    assert list(evaluation.lengths) == lengths_one_by_one(remembering, evaluation.seeds)
    assert len(set(evaluation.lengths)) > 3


def test_a_film_shows_what_was_judged(tmp_path):
    remembering = agent()
    evaluation = evaluate(remembering, CFG, episodes=3, seed=1)
    film = film_seeds(remembering, CFG, tmp_path / "film.webp", seeds=evaluation.seeds)
    assert film.lengths == evaluation.lengths
