"""The chain's values are known in closed form: bootstrap at a time limit, none at a death, nothing over a reset."""

import numpy as np
import pytest
import torch

from rlstudio.core.contracts import Acted
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import Collector
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train
from rlstudio.ops.returns import advantages
from support.closed_forms import chain_action_values, chain_values

GAMMA = 0.9


class AlwaysRight:
    acting = "numpy"
    remembers = False

    def noise(self, generator, steps, num_envs):
        return np.empty((steps, num_envs, 0))

    def step(self, observations, carry=None, noise=None):
        return Acted(np.ones(len(observations), np.int64), {}, carry)


def chain(endless: bool, limit: int) -> EnvConfig:
    return EnvConfig(id="rlstudio/Chain-v0", num_envs=3, kwargs={"endless": endless}, max_episode_steps=limit)


def values_of(observations: torch.Tensor, endless: bool) -> torch.Tensor:
    return observations @ torch.from_numpy(chain_values(GAMMA, endless=endless)).float()


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("limit", [3, 7, 50])
@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_with_the_true_values_every_advantage_is_zero(endless, limit, lam):
    rollout = Collector(make_vec_env(chain(endless, limit)), AlwaysRight(), Rng(0)).collect(60)
    assert rollout.truncated.any() == (endless or limit < 5)
    assert rollout.terminated.any() == (not endless and limit >= 5)
    values, following = values_of(rollout.observations, endless), values_of(rollout.next_observations, endless)
    found = advantages(rollout, values, following, torch.zeros_like(values), GAMMA, lam)
    assert found.advantages.abs().max() < 1e-4


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("horizon", [1, 2, 5, 9])
def test_with_the_true_values_every_n_step_target_is_the_value(endless, horizon):
    collector = Collector(make_vec_env(chain(endless, 7)), AlwaysRight(), Rng(0))
    replay = ReplayBuffer(collector.env.spaces, 300, 3)
    replay.add(collector.collect(50))
    batch = replay.sample(500, np.random.default_rng(0), horizon=horizon, gamma=GAMMA)
    bootstrap = values_of(batch.next_observations, endless) * (~batch.terminated).float()
    targets = batch.rewards + batch.discounts * bootstrap
    assert torch.allclose(targets, values_of(batch.observations, endless), atol=1e-4)


@pytest.mark.learning
@pytest.mark.parametrize("endless", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("n_step", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_dqn_learns_the_true_action_values_through_time_limits(endless, n_step):
    """An episode of 8 steps of an endless chain: who takes the limit for a death learns values several times too low.

    n-step returns of random actions are biased off the greedy policy, so three steps are judged on their ranking.
    """
    env = {"id": "rlstudio/Chain-v0", "num_envs": 4, "kwargs": {"endless": endless}, "max_episode_steps": 8}
    fields = {"epochs": 20, "steps_per_epoch": 500, "batch_size": 64, "learning_starts": 400, "lr": 1e-2,
              "lr_schedule": "linear", "gamma": GAMMA, "epsilon_end": 0.5 if n_step == 1 else 0.1, "target_every": 50,
              "n_step": n_step}  # fmt: skip
    cfg = experiment_from({"env": env, "policy": {"algo": "dqn", "network": {"hidden_sizes": [32]}}, "train": fields})
    trainer = build_trainer(cfg, build_runtime(cfg))
    for _ in train(trainer, cfg.train, Position()):
        pass
    learned = trainer.model(torch.eye(5)).detach().numpy()
    expected = chain_action_values(GAMMA, endless=endless)
    if n_step == 1:
        np.testing.assert_allclose(learned, expected, rtol=0.06, atol=0.03)
    else:
        assert (learned.argmax(1) == 1).all()
        np.testing.assert_allclose(learned[-1, 1], expected[-1, 1], rtol=0.1)
