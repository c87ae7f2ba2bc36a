"""The ring: what goes in comes out, n-step windows stop with their episode, a restored ring is the same ring."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import ReplayPlan
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces
from rlstudio.data.replay import buffer as replay_module
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.data.replay.source import ReplaySource
from rlstudio.data.replay.windows import transitions
from support.examples import examples

LINE = Spaces(Box((1,), "float32", (-1e9,), (1e9,)), Discrete(7))


def rollout(start: int, steps: int, envs: int, done_every: int = 0) -> Batch:
    """Row (t, b) is numbered: its observation is its number, its successor the number of the same env's next row."""
    numbers = torch.arange(start, start + steps * envs, dtype=torch.float32).view(steps, envs)
    dones = (numbers // envs + 1) % done_every == 0 if done_every else torch.zeros(steps, envs, dtype=torch.bool)
    return Batch(
        lead=2,
        observations=numbers[..., None],
        actions=(numbers % 7).long(),
        rewards=numbers,
        terminated=dones,
        truncated=torch.zeros(steps, envs, dtype=torch.bool),
        next_observations=numbers[..., None] + envs,
    )


@given(st.integers(1, 3), st.integers(4, 40), st.lists(st.integers(1, 6), min_size=1, max_size=15))
def test_it_holds_the_newest_rows_in_order(envs, capacity, chunks):
    ring = ReplayBuffer(LINE, max(capacity, 6 * envs), envs)
    total = 0
    for steps in chunks:
        ring.add(rollout(total, steps, envs))
        total += steps * envs
    assert len(ring) == min(total, ring.capacity)
    held = ring.store.read(ring.added - len(ring), ring.added)["rewards"]
    assert held.tolist() == list(range(total - len(ring), total))


def test_samples_are_rows_that_were_added_and_uniform():
    ring = ReplayBuffer(LINE, 50, 1)
    ring.add(rollout(0, 30, 1))
    batch = ring.sample(30_000, np.random.default_rng(0), gamma=0.9)
    assert torch.equal(batch.observations.squeeze(1), batch.rewards)
    assert torch.equal(batch.next_observations, batch.observations + 1)
    assert torch.equal(batch.actions, (batch.rewards % 7).long())
    assert torch.allclose(batch.discounts, torch.tensor(0.9))
    counts = torch.bincount(batch.rewards.long(), minlength=30)
    assert counts.min() > 850
    assert counts.max() < 1150


@examples(40)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(0, 4), st.integers(0, 1000))
def test_n_step_windows_equal_a_walk_along_the_rows(envs, horizon, done_every, seed):
    ring = ReplayBuffer(LINE, 24 * envs, envs)
    ring.add(rollout(0, 20, envs, done_every))
    ring.add(rollout(20 * envs, 17, envs, done_every))
    batch = ring.sample(64, np.random.default_rng(seed), horizon=horizon, gamma=0.5)
    for i in range(64):
        number, total, k = int(batch.observations[i]), 0.0, 0
        while True:
            total += 0.5**k * (number + k * envs)
            ended = bool(done_every) and ((number + k * envs) // envs + 1) % done_every == 0
            if ended or k == horizon - 1:
                break
            k += 1
        assert batch.rewards[i].item() == pytest.approx(total)
        assert batch.next_observations[i].item() == number + (k + 1) * envs
        assert bool(batch.terminated[i]) == ended
        assert batch.discounts[i].item() == pytest.approx(0.5 ** (k + 1))


def test_a_window_that_is_not_complete_is_not_sampled():
    ring = ReplayBuffer(LINE, 100, 1)
    ring.add(rollout(0, 5, 1))
    batch = ring.sample(500, np.random.default_rng(0), horizon=3)
    assert batch.observations.max() <= 2
    with pytest.raises(ValueError, match="windows of 6 steps"):
        ring.sample(1, np.random.default_rng(0), horizon=6)


def test_bad_rows_keep_weight_zero_and_good_ones_cost_nothing():
    ring = ReplayBuffer(LINE, 10, 1)
    ring.add(rollout(0, 2, 1))
    assert ring.sample(4, np.random.default_rng(0)).weights is None
    ring.add(rollout(2, 2, 1).with_(weights=torch.tensor([[1.0], [0.0]])))
    batch = ring.sample(200, np.random.default_rng(0))
    assert torch.equal(batch.weights == 0, batch.rewards == 3)


def test_a_bad_row_after_the_end_of_an_episode_does_not_cost_the_window_before_it():
    ring = ReplayBuffer(LINE, 10, 1)
    ring.add(rollout(0, 4, 1, done_every=2).with_(weights=torch.tensor([[1.0], [1.0], [0.0], [1.0]])))
    batch = ring.sample(200, np.random.default_rng(0), horizon=2)
    for start, weight in enumerate([1, 1, 0]):
        assert (batch.weights[batch.observations.squeeze(1) == start] == weight).all()


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("done_every", [0, 4])
def test_windows_are_successive_rows_of_one_environment_up_to_the_end_of_its_episode(envs, done_every):
    replay = ReplayBuffer(LINE, capacity=20 * envs, num_envs=envs)
    replay.add(rollout(0, 33, envs, done_every))
    windows = replay.windows(600, np.random.default_rng(0), horizon=5)
    assert windows.shape == (5, 600)
    first = windows.observations[0, :, 0]
    assert set(first.int().tolist()) == set(range(13 * envs, 29 * envs)), "every window that is held, and no other"
    for step in range(5):
        assert torch.equal(windows.observations[step, :, 0], first + step * envs)
        assert torch.equal(windows.rows[step].float(), first + step * envs)
    ends = windows.dones.int()
    before = torch.stack([ends[:step].sum(0) for step in range(5)])
    assert torch.equal(windows.weights, (before == 0).float())


def test_a_bad_row_costs_the_windows_it_is_live_in():
    replay = ReplayBuffer(LINE, capacity=8, num_envs=1)
    weights = torch.ones(8, 1)
    weights[5] = 0.0
    replay.add(rollout(0, 8, 1, done_every=4).with_(weights=weights))
    windows = replay.windows(100, np.random.default_rng(0), horizon=3)
    by_first = {int(windows.rows[0, n]): windows.weights[:, n].tolist() for n in range(100)}
    assert by_first == {0: [1, 1, 1], 1: [1, 1, 1], 2: [1, 1, 0], 3: [1, 0, 0], 4: [0, 0, 0], 5: [0, 0, 0]}


@pytest.mark.parametrize(("envs", "done_every"), [(1, 0), (3, 4), (2, 1)])
def test_windows_as_transitions_are_the_n_step_rows(envs, done_every):
    replay = ReplayBuffer(LINE, 120, envs)
    replay.add(rollout(0, 30, envs, done_every))
    windows = replay.windows(50, np.random.default_rng(0), horizon=4)
    found, wanted = transitions(windows, 0.9), replay.at(windows.rows[0].numpy(), 4, 0.9)
    for name in (
        "observations",
        "actions",
        "rewards",
        "discounts",
        "next_observations",
        "terminated",
        "truncated",
        "rows",
    ):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name))


def test_a_source_shows_each_new_row_once_and_each_window_when_it_is_whole():
    class Steps:
        env_steps, run_envs = 0, 2

        def fragments(self, steps):
            self.env_steps += 2 * steps
            yield 0, rollout(self.env_steps // 2 - steps, steps, 2)

    plan = ReplayPlan(4, warmup=8, every=4, horizon=3)
    source = ReplaySource(Steps(), ReplayBuffer(LINE, 40, 2), Rng(0), plan)
    rows, windows = [], []
    for _ in range(20):
        source.next()
        for seen, fresh in ((rows, source.fresh()), (windows, source.fresh(3))):
            seen.extend(fresh.rows.tolist())
        assert len(source.replay) <= 40
    assert rows == list(range(8 + 19 * 4))
    assert windows == list(range(8 + 19 * 4 - 4))
    source.plan = replace(plan, updates=2**20)  # nothing new
    source.next()
    assert source.fresh().shape == source.fresh(3).shape == (0,)
    assert source.fresh(3).names == source.last.names


def test_windows_longer_than_what_is_held_are_refused():
    replay = ReplayBuffer(LINE, capacity=8, num_envs=2)
    replay.add(rollout(0, 2, 2))
    with pytest.raises(ValueError, match="windows of 3 steps need more in each environment"):
        replay.windows(4, np.random.default_rng(0), horizon=3)


@given(st.integers(1, 3), st.integers(1, 40))
def test_of_a_rollout_longer_than_the_ring_the_newest_rows_stay(envs, steps):
    ring = ReplayBuffer(LINE, 7 * envs, envs)
    ring.add(rollout(0, 3, envs))
    ring.add(rollout(3 * envs, steps, envs))
    assert ring.added == (3 + steps) * envs
    held = ring.store.read(ring.added - len(ring), ring.added)["rewards"]
    assert held.tolist() == list(range(ring.added - len(ring), ring.added))


@pytest.mark.parametrize("rows", [7, 16, 40, 75, 160])
def test_a_restored_ring_gives_the_same_samples_and_segments_are_on_a_fixed_grid(rows, monkeypatch):
    monkeypatch.setattr(replay_module, "SEGMENT_ROWS", 8)
    ring = ReplayBuffer(LINE, 64, 1)
    for start in range(0, rows, 5):
        ring.add(rollout(start, min(5, rows - start), 1))
    state = ring.state_dict()
    assert all(int(segment.name.removeprefix("rows-")) % 8 == 0 for segment in state["segments"])
    assert len(state["segments"]) * 8 + sum(len(end["rewards"]) for end in state["ends"].values()) == len(ring)
    again = ReplayBuffer(LINE, 64, 1)
    again.load_state_dict(state)
    one, other = (r.sample(50, np.random.default_rng(1), horizon=2) for r in (ring, again))
    for name in one.names:
        assert torch.equal(getattr(one, name), getattr(other, name))


def test_a_full_segment_never_changes(monkeypatch):
    monkeypatch.setattr(replay_module, "SEGMENT_ROWS", 8)
    ring = ReplayBuffer(LINE, 32, 1)
    seen = {}
    for start in range(0, 200, 3):
        ring.add(rollout(start, 3, 1))
        for segment in ring.state_dict()["segments"]:
            rewards = segment.columns()["rewards"].tolist()
            assert seen.setdefault(segment.name, rewards) == rewards


def test_dict_and_image_observations():
    space = Dict((("camera", Box((4, 4, 3), "uint8", (0,), (255,))), ("speed", Box((2,), "float32", (-1,), (1,)))))
    ring = ReplayBuffer(Spaces(space, Discrete(2)), 10, 1)
    camera = torch.randint(0, 255, (3, 1, 4, 4, 3), dtype=torch.uint8)
    speed = torch.rand(3, 1, 2)
    observations = {"camera": camera, "speed": speed}
    flags = torch.zeros(3, 1, dtype=torch.bool)
    ring.add(
        Batch(
            lead=2,
            observations=observations,
            next_observations=observations,
            actions=flags.long(),
            rewards=torch.arange(3.0)[:, None],
            terminated=flags,
            truncated=flags,
        )
    )
    batch = ring.sample(20, np.random.default_rng(0))
    row = batch.rewards.long()
    assert torch.equal(batch.observations["camera"], camera[row, 0])
    assert torch.equal(batch.next_observations["speed"], speed[row, 0])


def test_memory_is_not_committed_before_rows_arrive():
    ring = ReplayBuffer(LINE, 50_000_000, 1)
    resident = _resident_kb()
    ring.add(rollout(0, 10, 1))
    assert _resident_kb() - resident < 50_000


def _resident_kb() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
