"""What an agent remembers in rollouts: stored before each step, fresh at each start, whole through a checkpoint."""

import numpy as np
import pytest
import torch

from rlstudio.agents.policy import PolicyAgent
from rlstudio.core.batch import Batch
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.batcher import Batcher
from rlstudio.data.collect.collector import Collector
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_policy_value
from rlstudio.models.config import NetworkConfig


def collector(kind: str, num_envs=3, seed=5) -> Collector:
    env = make_vec_env(EnvConfig(id="rlstudio/CartPoleNoVel-v1", num_envs=num_envs, seed=seed))
    model = build_policy_value(env.spaces, NetworkConfig(memory=kind, memory_size=8), Rng(seed))
    return Collector(env, PolicyAgent(model, env.spaces), Rng(seed).fork("collector"))


def copied(column):
    return {name: tensor.clone() for name, tensor in column.items()} if isinstance(column, dict) else column.clone()


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_rollouts_carry_what_was_remembered_before_each_row(kind):
    acting = collector(kind)
    first = {name: copied(getattr(acting.collect(60), name)) for name in ("carry", "dones")}
    rollout = acting.collect(60)
    assert not rollout.resets[0].any()  # the stored carry is fresh already
    assert torch.equal(rollout.resets[1:], rollout.dones[:-1])
    assert rollout.resets.any()
    for part, rows in rollout.carry.items():
        assert rows.shape == (60, 3, 2, 8)
        assert not rows[rollout.resets].any()
        going_on = ~rollout.resets
        assert (rows[1:][going_on[1:]].flatten(1).abs().amax(1) > 0).all()
        assert not first["carry"][part][0].any()  # the very first row
        fresh = first["dones"][-1]
        assert not rows[0][fresh].any()
        assert rows[0][~fresh].any()


def test_learning_sees_the_values_and_probabilities_that_acting_had():
    acting = collector("gru")
    acting.collect(33)
    rollout, model = acting.collect(40), acting.agent.model
    with torch.no_grad():
        unrolled = model(**rollout.only(model.reads))[1]
        pieces = model(**rollout.sequences(8).only(model.reads))[1]
    together = pieces.view(8, 5, 3).transpose(0, 1).reshape(40, 3)
    torch.testing.assert_close(unrolled, together, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("at", [1, 37, 150])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_collector_restored_in_the_midst_of_episodes_continues_bit_for_bit(kind, at):
    straight, cut = collector(kind), collector(kind)
    straight.collect(at)
    cut.collect(at)
    resumed = collector(kind)
    resumed.load_state_dict(cut.state_dict())
    one, other = straight.collect(50), resumed.collect(50)
    for name in one.names:
        mine, theirs = getattr(one, name), getattr(other, name)
        pairs = [(mine[k], theirs[k]) for k in mine] if isinstance(mine, dict) else [(mine, theirs)]
        assert all(torch.equal(a, b) for a, b in pairs), name


def test_sequences_are_shown_whole_and_once_per_pass():
    acting = collector("gru", num_envs=4)
    rollout = acting.collect(12)
    marked = rollout.with_(rewards=torch.arange(48.0).view(12, 4))
    for length, size, shapes in ((None, 24, [(12, 2)] * 2), (4, 20, [(4, 5), (4, 5), (4, 2)]), (4, 1, [(4, 1)] * 12)):
        batches = list(Batcher(size, 2, Rng(0), length)(marked))
        assert [batch.shape for batch in batches] == shapes * 2
        half = len(batches) // 2
        for part in (batches[:half], batches[half:]):
            assert sorted(torch.cat([b.rewards.flatten() for b in part]).tolist()) == list(range(48))
        for batch in batches:
            assert (batch.rewards[1:] - batch.rewards[:-1] == 4).all()  # the next step of the same environment
            column = (batch.rewards[0] % 4).long()
            start = (batch.rewards[0] // 4).long()
            assert torch.equal(batch.carry["h"][0], rollout.carry["h"][start, column])
    orders = [[b.rewards[0].tolist() for b in Batcher(24, 1, Rng(seed))(marked)] for seed in range(4)]
    assert any(order != orders[0] for order in orders)


def test_steps_that_do_not_divide_are_refused():
    batch = Batch(lead=2, rewards=torch.zeros(10, 2))
    with pytest.raises(ValueError, match="10 steps cannot be cut into sequences of 4"):
        batch.sequences(4)


def test_what_was_remembered_of_a_bad_observation_does_not_count_until_the_episode_ends(monkeypatch):
    acting = collector("gru", num_envs=1)
    step, calls = acting.env.step, iter(range(10**6))

    def poisoned(actions):
        taken = step(actions)
        if next(calls) != 3:
            return taken
        return taken._replace(observations=np.full_like(taken.observations, np.nan))

    monkeypatch.setattr(acting.env, "step", poisoned)
    rollout = acting.collect(200)
    end = int(rollout.dones[:, 0].nonzero()[0])
    assert rollout.weights[:4].all()
    assert not rollout.weights[4 : end + 1].any()
    assert rollout.weights[end + 1 :].all()
    model = acting.agent.model
    policy, values = model(**rollout.only(model.reads))
    assert torch.isfinite(values).all()
    assert torch.isfinite(policy.logits).all()
    assert torch.isfinite(model.successor_values(rollout)).all()


def test_agents_without_memory_have_no_such_columns():
    env = make_vec_env(EnvConfig(id="CartPole-v1", num_envs=2))
    model = build_policy_value(env.spaces, NetworkConfig(), Rng(0))
    rollout = Collector(env, PolicyAgent(model, env.spaces), Rng(0)).collect(4)
    assert "carry" not in rollout
    assert "resets" not in rollout
    assert RowGuard()(rollout, Discrete(2)).weights is None
