"""Replay that is filled in parts and at different speeds: each environment's rows are those of a ring of its own."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import PriorityPlan
from rlstudio.core.spaces import Box, Discrete, Spaces, Stack
from rlstudio.data.replay import buffer as buffer_module
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.data.replay.priorities import Priorities
from support.examples import examples

LINE = Spaces(Box((1,), "float32", (-1e9,), (1e9,)), Discrete(7))
ENVS = 3
fragment = st.tuples(st.sampled_from([(0, 3), (0, 1), (1, 2), (2, 1)]), st.integers(1, 5))
parts = st.lists(fragment, min_size=1, max_size=12)


def steps_of(env: int, first: int, steps: int, done_every: int = 4) -> Batch:
    """Rows first, first + 1, ... of an environment: row k of env e shows 1000 e + k."""
    numbers = torch.arange(first, first + steps, dtype=torch.float32).unsqueeze(1)
    return Batch(
        lead=2,
        observations=(1000 * env + numbers)[..., None],
        next_observations=(1000 * env + numbers + 1)[..., None],
        actions=(numbers % 7).long(),
        rewards=numbers,
        terminated=(numbers + 1) % done_every == 0,
        truncated=torch.zeros(steps, 1, dtype=torch.bool),
    )


def side_by_side(rollouts: list[Batch]) -> Batch:
    first = rollouts[0]
    return Batch(lead=2, **{name: torch.cat([getattr(r, name) for r in rollouts], 1) for name in first.names})


def filled(pieces, capacity: int = 24) -> tuple[ReplayBuffer, list[int]]:
    """The buffer after these fragments ((first environment, how many), steps), and each environment's count of rows."""
    buffer, counts = ReplayBuffer(LINE, capacity, ENVS), [0] * ENVS
    for (first, envs), steps in pieces:
        buffer.add(side_by_side([steps_of(env, counts[env], steps) for env in range(first, first + envs)]), first)
        for env in range(first, first + envs):
            counts[env] += steps
    return buffer, counts


@given(parts)
def test_each_environment_keeps_its_newest_rows_and_their_numbers(pieces):
    buffer, counts = filled(pieces)
    held = buffer.all()
    for env in range(ENVS):
        mine = held.rows % ENVS == env
        expected = list(range(max(counts[env] - 8, 0), counts[env]))
        assert (held.rows[mine] // ENVS).tolist() == expected
        assert held.observations[mine, 0].tolist() == [1000 * env + k for k in expected]
    assert len(buffer) == len(held)
    assert buffer.added == sum(counts)


@given(parts, st.integers(1, 4), st.integers(0, 1000))
def test_samples_are_uniform_over_whole_windows_and_stay_in_their_environment(pieces, horizon, seed):
    buffer, counts = filled(pieces)
    whole = {k * ENVS + env for env in range(ENVS) for k in range(max(counts[env] - 8, 0), counts[env] - horizon + 1)}
    if not whole:
        with pytest.raises(ValueError, match=f"windows of {horizon} steps"):
            buffer.sample(4, np.random.default_rng(seed), horizon)
        return
    batch = buffer.sample(40 * len(whole), np.random.default_rng(seed), horizon, gamma=0.5)
    assert set(batch.rows.tolist()) == whole
    each = np.bincount(batch.rows.numpy())[sorted(whole)]
    assert each.max() < 40 * 3
    env, step = batch.rows % ENVS, batch.rows // ENVS
    live = torch.minimum(torch.full_like(step, horizon), 4 - step % 4)  # episodes end every 4 rows
    assert torch.equal(batch.next_observations[:, 0], (1000 * env + step + live).float())
    assert torch.equal(batch.discounts, 0.5 ** live.float())
    windows = buffer.windows(20, np.random.default_rng(seed), horizon)
    assert torch.equal(windows.rows, windows.rows[0] + ENVS * torch.arange(horizon).unsqueeze(1))


@given(parts, parts)
@examples(40)
def test_a_restored_buffer_goes_on_the_same(pieces, more):
    buffer, _ = filled(pieces)
    again = ReplayBuffer(LINE, 24, ENVS)
    again.load_state_dict(buffer.state_dict())
    one, _ = filled([*pieces, *more])
    counts = buffer.numbering.counts.tolist()
    for (first, envs), steps in more:
        again.add(side_by_side([steps_of(env, counts[env], steps) for env in range(first, first + envs)]), first)
        for env in range(first, first + envs):
            counts[env] += steps
    for name in ("observations", "rewards", "rows", "terminated"):
        assert torch.equal(getattr(again.all(), name), getattr(one.all(), name))


@given(parts)
def test_a_segment_is_full_for_good_only_when_every_environment_has_passed_it(pieces):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer_module, "SEGMENT_ROWS", 4)
        buffer, counts = filled(pieces)
        for segment in buffer.state_dict()["segments"]:
            start = int(segment.name.removeprefix("rows-"))
            assert (start + 4) <= min(counts) * ENVS
            numbers = np.arange(start, start + 4)
            assert np.array_equal(segment.columns()["rewards"], numbers // ENVS)


@given(parts, st.integers(1, 3))
def test_priorities_know_exactly_the_rows_whose_window_is_held(pieces, horizon):
    buffer, counts = ReplayBuffer(LINE, 24, ENVS), [0] * ENVS
    priorities = Priorities(buffer.numbering, horizon, PriorityPlan(0.6, 0.4, 1.0, 1e-6))
    for (first, envs), steps in pieces:
        buffer.add(side_by_side([steps_of(env, counts[env], steps) for env in range(first, first + envs)]), first)
        for env in range(first, first + envs):
            counts[env] += steps
        priorities.extend()
        whole = {
            k * ENVS + env for env in range(ENVS) for k in range(max(counts[env] - 8, 0), counts[env] - horizon + 1)
        }
        slots = np.flatnonzero(priorities.tree.leaves)
        assert set(buffer.numbering.newest_at(slots, buffer.capacity).tolist()) == whole
        if whole:
            numbers, _ = priorities.draw(16, np.random.default_rng(0))
            assert set(numbers.tolist()) <= whole
            priorities.feedback(numbers, np.ones(16))
    again = Priorities(buffer.numbering, horizon, PriorityPlan(0.6, 0.4, 1.0, 1e-6))
    again.load_state_dict(priorities.state_dict())
    assert np.array_equal(again.tree.nodes, priorities.tree.nodes)


@given(parts)
@examples(25)
def test_stacked_frames_are_rebuilt_for_each_environment(pieces):
    space = Box((2, 3, 3), "uint8", (0,), (255,), stack=Stack(2, "reset"))
    buffer, counts = ReplayBuffer(Spaces(space, Discrete(2)), 24, ENVS), [0] * ENVS

    def frame(env: int, k: int) -> torch.Tensor:
        return torch.full((3, 3), (60 * env + k) % 256, dtype=torch.uint8)

    def stacked(env: int, k: int) -> torch.Tensor:
        """Episodes of 4 steps have 5 frames each, and begin with the same frame twice."""
        episode, step = divmod(k, 4)
        at = 5 * episode + step
        return torch.stack([frame(env, at - 1 if step else at), frame(env, at)])

    def successor(env: int, k: int) -> torch.Tensor:
        at = 5 * (k // 4) + k % 4
        return torch.stack([frame(env, at), frame(env, at + 1)])

    for (first, envs), steps in pieces:
        rows = [
            Batch(
                lead=2,
                observations=torch.stack([stacked(env, counts[env] + k) for k in range(steps)]).unsqueeze(1),
                next_observations=torch.stack([successor(env, counts[env] + k) for k in range(steps)]).unsqueeze(1),
                actions=torch.zeros(steps, 1, dtype=torch.int64),
                rewards=torch.zeros(steps, 1),
                terminated=((counts[env] + torch.arange(steps)) % 4 == 3).unsqueeze(1),
                truncated=torch.zeros(steps, 1, dtype=torch.bool),
            )
            for env in range(first, first + envs)
        ]
        buffer.add(side_by_side(rows), first)
        for env in range(first, first + envs):
            counts[env] += steps
    held = buffer.all()
    assert held.weights is None, "every row could be rebuilt"
    for row, observation, following in zip(held.rows.tolist(), held.observations, held.next_observations, strict=True):
        assert torch.equal(observation, stacked(row % ENVS, row // ENVS))
        assert torch.equal(following, successor(row % ENVS, row // ENVS))
