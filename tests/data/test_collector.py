"""Collector and its parts: true successors, exact episode statistics, and state that continues bit for bit."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.agents.policy import PolicyAgent
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Place, ReplayPlan
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.batcher import Batcher
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.episodes import EpisodeLog
from rlstudio.data.collect.explore import EpsilonGreedy
from rlstudio.data.collect.noise import BLOCK, NoiseBlocks
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.data.replay.source import ReplaySource
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.policy_value import PolicyValue


def collector(num_envs=3, seed=5) -> Collector:
    env = make_vec_env(EnvConfig(id="CartPole-v1", num_envs=num_envs, seed=seed))
    model = build_model(PolicyValue, env.spaces, NetworkConfig(), Rng(seed))
    return Collector(env, PolicyAgent(model, env.spaces), Rng(seed).fork("collector"))


def copied(batch: Batch) -> dict[str, torch.Tensor]:
    return {name: getattr(batch, name).clone() for name in batch.names}


def test_the_next_row_starts_where_this_one_led_unless_the_episode_ended():
    rollout = collector().collect(200)
    going_on = ~rollout.dones[:-1]
    assert torch.equal(rollout.next_observations[:-1][going_on], rollout.observations[1:][going_on])
    ended = rollout.dones[:-1]
    assert ended.any()
    assert not (rollout.next_observations[:-1][ended] == rollout.observations[1:][ended]).all(-1).any()
    assert (rollout.next_observations[rollout.terminated][:, [0, 2]].abs() > torch.tensor([2.4, 0.2095])).any(-1).all()


def test_cutting_the_same_steps_differently_changes_nothing():
    whole = copied(collector().collect(60))
    pieces = collector()
    parts = [copied(pieces.collect(n)) for n in (7, 1, 22, 30)]
    for name, column in whole.items():
        assert torch.equal(column, torch.cat([part[name] for part in parts]))


@pytest.mark.parametrize("at", [1, 37, 300])
def test_a_restored_collector_continues_bit_for_bit(at):
    straight, cut = collector(), collector()
    straight.collect(at)
    cut.collect(at)
    state = cut.state_dict()
    resumed = collector()
    resumed.load_state_dict(state)
    one, other = copied(straight.collect(50)), copied(resumed.collect(50))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert straight.inspection.episodes.take() == resumed.inspection.episodes.take()
    assert resumed.env_steps == 3 * (at + 50)


@given(st.integers(1, 4), st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 10**6))
def test_episode_statistics_equal_a_slow_count(envs, chunks, seed):
    g = np.random.default_rng(seed)
    log, expected, open_returns, open_lengths = EpisodeLog(envs), [], np.zeros(envs), np.zeros(envs, int)
    for steps in chunks:
        rewards, dones = g.integers(-3, 4, (steps, envs)).astype(np.float32), g.random((steps, envs)) < 0.3
        log.add(rewards, dones, np.zeros_like(dones))
        for t in range(steps):
            for b in range(envs):
                open_returns[b] += rewards[t, b]
                open_lengths[b] += 1
                if dones[t, b]:
                    expected.append((open_returns[b], open_lengths[b]))
                    open_returns[b], open_lengths[b] = 0, 0
    returns, lengths, _ = log.take()
    assert list(zip(returns, lengths, strict=True)) == expected
    assert log.open_returns.tolist() == open_returns.tolist()
    assert log.open_lengths.tolist() == open_lengths.tolist()


def test_noise_of_a_step_does_not_depend_on_how_it_was_reached():
    draw = lambda generator, steps, envs: generator.random((steps, envs))  # noqa: E731
    forward, jumping = (NoiseBlocks(draw, Rng(1), 2) for _ in range(2))
    walked = [forward.at(n).copy() for n in range(2 * BLOCK + 3)]
    for n in (2 * BLOCK + 2, 0, BLOCK, BLOCK - 1):
        assert np.array_equal(jumping.at(n), walked[n])


def test_epsilon_greedy_has_the_stated_distribution():
    explore, place = EpsilonGreedy(Discrete(4), 0.3, 0.0, until=0.5), Place(1, np.arange(1), 1)
    noise = explore.noise(np.random.default_rng(0), 1, 100_000)[0]
    chosen = explore(np.zeros(100_000, np.int64), noise, np.empty(0), place)
    shares = np.bincount(chosen, minlength=4) / 100_000
    np.testing.assert_allclose(shares, [0.7 + 0.3 / 4] + [0.3 / 4] * 3, atol=0.01)
    explore.progress(0.25)
    assert explore.epsilon == pytest.approx(0.15)
    explore.progress(0.5)
    assert not explore(np.zeros(100, np.int64), noise[:100], np.empty(0), place).any()


def batch_of(rewards, observations=None) -> Batch:
    rewards = torch.tensor(rewards, dtype=torch.float32).view(-1, 1)
    flags = torch.zeros_like(rewards, dtype=torch.bool)
    obs = torch.zeros(len(rewards), 1, 2) if observations is None else observations
    return Batch(
        lead=2,
        observations=obs,
        next_observations=obs.clone(),
        actions=flags.long(),
        rewards=rewards,
        terminated=flags,
        truncated=flags,
    )


def test_the_guard_gives_bad_rows_no_weight_and_counts_them():
    guard = RowGuard(reward_range=(-10, 10))
    observations = torch.zeros(4, 1, 2)
    observations[2, 0, 1] = float("nan")
    guarded = guard(batch_of([1, float("inf"), 1, 11], observations), Discrete(2))
    assert guarded.weights.flatten().tolist() == [1, 0, 0, 0]
    assert torch.isfinite(guarded.observations).all()
    assert torch.isfinite(guarded.rewards).all()
    assert guard.counts == {"observations": 1 + 1, "rewards": 1, "reward_range": 1, "actions": 0}
    assert guard.bad_rows == 3  # each once, however much is wrong with it
    assert guard(batch_of([1.0]), Discrete(2)).weights is None


@pytest.mark.filterwarnings("error")
def test_numbers_too_large_to_be_squared_are_still_numbers():
    observations = torch.full((4, 1, 3), 3e38)
    assert RowGuard()(batch_of([1e30, 0.0, -3e38, 1.0], observations), Discrete(2)).weights is None


def test_the_guard_finds_actions_outside_their_space():
    batch = batch_of([1.0, 1.0])
    assert RowGuard()(batch.with_(actions=torch.tensor([[0], [5]])), Discrete(2)).weights.flatten().tolist() == [1, 0]
    box = Box((1,), "float32", (-1,), (1,))
    actions = torch.tensor([[[0.5]], [[float("nan")]]])
    assert RowGuard()(batch.with_(actions=actions), box).weights.flatten().tolist() == [1, 0]


def test_a_reward_that_is_no_number_spoils_no_other_episode(monkeypatch):
    acting = collector(1)
    step = acting.env.step
    calls = iter(range(10**6))

    def poisoned(actions):
        taken = step(actions)
        return taken._replace(rewards=np.asarray([np.nan], np.float32)) if next(calls) == 3 else taken

    monkeypatch.setattr(acting.env, "step", poisoned)
    acting.collect(200)
    returns, lengths, _ = acting.inspection.episodes.take()
    assert len(returns) > 2
    assert math.isnan(returns[0])
    assert returns[1:] == lengths[1:]


def test_clipping_leaves_episode_returns_as_they_were():
    env = make_vec_env(EnvConfig(id="CartPole-v1", num_envs=1, seed=5))
    model = build_model(PolicyValue, env.spaces, NetworkConfig(), Rng(5))
    acting = Collector(env, PolicyAgent(model, env.spaces), Rng(5), guard=RowGuard(reward_clip=0.25))
    assert (acting.collect(200).rewards == 0.25).all()
    returns, lengths, _ = acting.inspection.episodes.take()
    assert returns == lengths


def test_a_buffer_that_holds_no_window_is_refused():
    acting = collector(4)
    with pytest.raises(ConfigError, match=r"buffer.capacity: 8 rows of 4 environments hold no window of 3 steps.*12"):
        ReplaySource(
            acting, ReplayBuffer(acting.env.spaces, 10, 4), Rng(0), ReplayPlan(8, warmup=5, every=4, horizon=3)
        )


def test_rewards_can_be_clipped():
    assert RowGuard(reward_clip=1.0)(batch_of([-3.0, 0.5, 7.0]), Discrete(2)).rewards.flatten().tolist() == [-1, 0.5, 1]


def test_batcher_shows_every_row_once_per_pass():
    batch = batch_of(list(range(10)))
    batcher = Batcher(4, 3, Rng(0))
    sizes, seen = [], []
    for mini in batcher(batch):
        sizes.append(len(mini))
        seen += mini.rewards.tolist()
    assert sizes == [4, 4, 2] * 3
    for start in (0, 10, 20):
        assert sorted(seen[start : start + 10]) == list(range(10))
    assert seen[:10] != seen[10:20]
    again = Batcher(4, 3, Rng(0))
    again.load_state_dict(batcher.state_dict())
    assert [m.rewards.tolist() for m in again(batch)] == [m.rewards.tolist() for m in batcher(batch)]


@pytest.mark.parametrize(("num_envs", "every", "updates"), [(1, 4, 1), (2, 4, 3), (8, 4, 1), (3, 10, 2)])
def test_replay_source_keeps_the_ratio_of_updates_to_data(num_envs, every, updates):
    acting = collector(num_envs)
    replay = ReplayBuffer(acting.env.spaces, 10_000, num_envs)
    source = ReplaySource(acting, replay, Rng(0), ReplayPlan(8, warmup=50, every=every, updates=updates))
    for n in range(60):
        source.next()
        due = 50 + n // updates * every
        assert due <= acting.env_steps < due + num_envs
        assert len(replay) == acting.env_steps


def test_replay_source_continues_bit_for_bit():
    def build():
        acting = collector(2)
        return ReplaySource(acting, ReplayBuffer(acting.env.spaces, 300, 2), Rng(3), ReplayPlan(16, warmup=20, every=6))

    straight, cut = build(), build()
    for _ in range(30):
        straight.next()
        cut.next()
    resumed = build()
    resumed.load_state_dict(cut.state_dict())
    for _ in range(100):
        one, other = straight.next(), resumed.next()
        assert all(torch.equal(getattr(one, name), getattr(other, name)) for name in one.names)


def test_what_an_agent_gives_for_learning_is_kept_or_refused():
    acting = collector()
    step = acting.agent.step

    def more(observations, carry=None, noise=None):
        acted = step(observations, carry, noise)
        return acted._replace(columns={"actions": acted.actions, "log_probs": np.zeros(3, np.float32)})

    acting.agent.step = more
    with pytest.raises(Incompatible, match="'log_probs' would be lost, a rollout keeps only `actions` of them"):
        acting.collect(2)
