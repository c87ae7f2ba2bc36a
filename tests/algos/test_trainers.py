"""What the trainers do around their losses: small minibatches, rows that do not count, settings that do not fit."""

import numpy as np
import pytest
import torch

from rlstudio.algos.dqn import DQN, DQNConfig
from rlstudio.algos.ppo import PPO, PPOConfig
from rlstudio.core.batch import Batch
from rlstudio.core.config import parse
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.returns import advantages


def runtime(num_envs: int = 1) -> LocalRuntime:
    return LocalRuntime(make_vec_env(EnvConfig(id="CartPole-v1", num_envs=num_envs, seed=3)), replay_capacity=64)


def ppo(num_envs: int = 1, **fields) -> PPO:
    return PPO(PPOConfig(**fields), runtime(num_envs), NetworkConfig(hidden_sizes=(8,)), Rng(0))


@pytest.mark.parametrize(("rows", "batch_size"), [(33, 32), (4, 1)])
def test_a_minibatch_of_one_row_is_learned_from(rows, batch_size):
    trainer = ppo(steps_per_epoch=rows, batch_size=batch_size, passes=2)
    metrics = trainer.train_step()
    assert all(torch.isfinite(value) for name, value in metrics.items() if name != "explained_variance")
    assert float(trainer.optimizer.skipped) == 0


def test_what_stands_in_a_row_that_does_not_count_reaches_no_other_row():
    trainer = ppo(num_envs=2, steps_per_epoch=20, batch_size=4)
    rollout = trainer.source.next()
    weights = torch.ones(10, 2)
    weights[4, 0] = weights[7, 1] = 0
    changed = rollout.rewards.clone()
    changed[4, 0], changed[7, 1] = 50.0, -70.0
    one, other = (
        trainer.with_advantages(rollout.with_(weights=weights, rewards=rewards)).advantages
        for rewards in (rollout.rewards, changed)
    )
    assert torch.equal(one[weights > 0], other[weights > 0])
    assert not torch.equal(one, other)


def test_rows_that_all_count_change_no_advantage():
    trainer = ppo(num_envs=2, steps_per_epoch=80, batch_size=4)
    rollout: Batch = trainer.source.next()
    learned = trainer.with_advantages(rollout.with_(weights=torch.ones(40, 2)))
    with torch.no_grad():
        next_values = trainer.model.value(rollout.flatten().next_observations).view(40, 2)
    plain = advantages(rollout, learned.values, next_values, learned.log_probs, 0.99, 0.98).advantages
    assert rollout.dones.any()
    np.testing.assert_array_equal(learned.advantages, plain)


def test_dqn_refuses_to_end_before_it_learns():
    with pytest.raises(ConfigError, match=r"learning_starts: 1000 is not before the end, step 512; lower it"):
        parse(DQNConfig, {"epochs": 1, "steps_per_epoch": 512})


def test_dqn_refuses_a_normalizer_it_would_never_feed():
    with pytest.raises(Incompatible, match="normalize_observations: dqn keeps no running statistics"):
        DQN(DQNConfig(), runtime(), NetworkConfig(normalize_observations=True), Rng(0))
