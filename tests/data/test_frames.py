"""Frames stored once: whatever the episodes, samples are those of a plain ring, in an eighth of the memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.batch import Batch
from rlstudio.core.errors import EnvFault
from rlstudio.core.spaces import Box, Discrete, Spaces, Stack
from rlstudio.data.replay import buffer as replay_module
from rlstudio.data.replay.buffer import ReplayBuffer, row_bytes, without_rows
from support.examples import examples

FRAME = (2, 3)


def spaces(size: int, padding: str = "reset", frame: tuple[int, ...] = FRAME) -> Spaces:
    return Spaces(Box((size, *frame), "uint8", (0,), (255,), Stack(size, padding)), Discrete(3))


def plainly(stacked: Spaces) -> Spaces:
    return replace(stacked, observation=replace(stacked.observation, stack=None))


class Film:
    """Environments whose frames are random and whose episodes end at random, seen through a frame stack."""

    def __init__(self, stacked: Spaces, envs: int, seed: int, mean_length: float) -> None:
        self.stack, self.frame = stacked.observation.stack, stacked.observation.shape[1:]
        self.envs, self.mean_length = envs, mean_length
        self.generator = np.random.default_rng(seed)
        self.stacks = np.stack([self.first() for _ in range(envs)])

    def shot(self) -> np.ndarray:
        return self.generator.integers(0, 256, self.frame, np.uint8)

    def first(self) -> np.ndarray:
        shot = self.shot()
        padding = shot if self.stack.padding == "reset" else np.zeros_like(shot)
        return np.stack([*[padding] * (self.stack.size - 1), shot])

    def rollout(self, steps: int) -> Batch:
        before, after, ends = [], [], []
        for _ in range(steps):
            successors = np.stack([np.stack([*stack[1:], self.shot()]) for stack in self.stacks])
            before.append(self.stacks)
            after.append(successors)
            ends.append(self.generator.random(self.envs) < 1 / self.mean_length)
            self.stacks = np.stack([self.first() if e else s for e, s in zip(ends[-1], successors, strict=True)])
        ended = torch.from_numpy(np.stack(ends))
        terminated = ended & torch.from_numpy(self.generator.random(ended.shape) < 0.5)
        return Batch(
            lead=2,
            observations=torch.from_numpy(np.stack(before)),
            next_observations=torch.from_numpy(np.stack(after)),
            actions=torch.from_numpy(self.generator.integers(0, 3, ended.shape)),
            rewards=torch.from_numpy(self.generator.random(ended.shape, np.float32)),
            terminated=terminated,
            truncated=ended & ~terminated,
        )


def assert_same(one: Batch, other: Batch) -> None:
    assert set(one.names) == set(other.names)
    for name in one.names:
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def assert_hold_the_same(once: ReplayBuffer, plain: ReplayBuffer, horizon: int) -> None:
    for steps in {1, horizon}:
        numbers = np.arange(plain.added - len(plain), plain.added - (steps - 1) * plain.num_envs)
        if len(numbers):
            assert_same(once.at(numbers, steps, 0.9), plain.at(numbers, steps, 0.9))


@examples(60)
@given(
    size=st.integers(2, 5),
    padding=st.sampled_from(["reset", "zero"]),
    envs=st.integers(1, 3),
    steps_held=st.integers(1, 12),
    chunks=st.lists(st.integers(1, 15), min_size=1, max_size=10),
    mean_length=st.sampled_from([1.0, 1.5, 3.0, 8.0, 1e9]),
    horizon=st.integers(1, 3),
    seed=st.integers(0, 999),
)
def test_every_row_is_that_of_a_plain_ring(size, padding, envs, steps_held, chunks, mean_length, horizon, seed):
    stacked = spaces(size, padding)
    film = Film(stacked, envs, seed, mean_length)
    once, plain = (ReplayBuffer(kind, steps_held * envs, envs) for kind in (stacked, plainly(stacked)))
    for steps in chunks:
        rollout = film.rollout(steps)
        once.add(rollout)
        plain.add(rollout)
        assert len(once) == len(plain)
        assert_hold_the_same(once, plain, horizon)
    assert not once.store.weighted
    draw = lambda ring: ring.sample(32, np.random.default_rng(seed), horizon=1, gamma=0.9)  # noqa: E731
    assert_same(draw(once), draw(plain))


@examples(25)
@given(st.integers(1, 3), st.sampled_from([1.5, 4.0, 1e9]), st.lists(st.integers(1, 9), min_size=2, max_size=12))
def test_a_restored_ring_goes_on_as_if_it_had_never_stopped(envs, mean_length, chunks):
    stacked = spaces(3)
    film = Film(stacked, envs, 1, mean_length)
    plain, ring = ReplayBuffer(plainly(stacked), 40 * envs, envs), ReplayBuffer(stacked, 40 * envs, envs)
    ring.segment_rows = 8
    seen: dict[str, list] = {}
    for steps in chunks:
        rollout = film.rollout(steps)
        plain.add(rollout)
        ring.add(rollout)
        state = ring.state_dict()
        for segment in state["segments"]:  # a name stands for the same bytes for ever
            content = {name: column.tolist() for name, column in segment.columns().items()}
            assert seen.setdefault(segment.name, content) == content
        again = ReplayBuffer(stacked, 40 * envs, envs)
        again.segment_rows = 8
        again.load_state_dict({**state, "pending": state["pending"].copy(), "ages": state["ages"].copy()})
        ring = again
        assert_hold_the_same(ring, plain, horizon=2)


@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_an_emptied_ring_learns_from_no_stack_whose_frames_it_lost(padding):
    """It goes on in the middle of episodes, whose earlier frames are gone."""
    stacked, envs = spaces(4, padding), 2
    film, ring = Film(stacked, envs, 0, 1e9), ReplayBuffer(stacked, 60, envs)
    ring.add(film.rollout(10))
    emptied = ReplayBuffer(stacked, 60, envs)
    emptied.load_state_dict(without_rows(ring.state_dict()))
    assert len(emptied) == 0
    rollout = film.rollout(12)
    emptied.add(rollout)
    rows, true = emptied.all(), rollout.flatten()
    whole = rows.weights > 0
    assert whole.tolist() == [False] * 3 * envs + [True] * 9 * envs
    assert torch.equal(rows.observations[whole], true.observations[whole])
    assert torch.equal(rows.next_observations[whole], true.next_observations[whole])


def test_frames_with_colours():
    stacked = spaces(4, frame=(2, 2, 3))
    film, once, plain = Film(stacked, 2, 0, 5.0), ReplayBuffer(stacked, 30, 2), ReplayBuffer(plainly(stacked), 30, 2)
    for _ in range(5):
        rollout = film.rollout(9)
        once.add(rollout)
        plain.add(rollout)
    assert_hold_the_same(once, plain, horizon=3)


def test_a_row_that_cannot_be_rebuilt_never_counts_and_the_others_do():
    """The environment goes on somewhere else without an end of the episode, as after an inexact resume."""
    stacked = spaces(3)
    film, once, plain = Film(stacked, 1, 0, 1e9), ReplayBuffer(stacked, 50, 1), ReplayBuffer(plainly(stacked), 50, 1)
    for rollout in (film.rollout(5), Film(stacked, 1, 7, 1e9).rollout(1)):
        once.add(rollout)
        plain.add(rollout)
    other = Film(stacked, 1, 9, 1e9)
    other.rollout(4)  # its stacks are full of frames that the ring never saw
    for steps in (1, 6):
        rollout = other.rollout(steps)
        once.add(rollout)
        plain.add(rollout)
    rows, expected = once.at(np.arange(13)), plain.at(np.arange(13))
    counts = rows.weights > 0
    assert 0 < counts.sum() < 13
    assert torch.equal(rows.observations[counts], expected.observations[counts])
    assert torch.equal(rows.next_observations[counts], expected.next_observations[counts])
    assert counts[:4].all()
    assert counts[-4:].all()


def test_an_env_whose_frames_are_no_stack_is_told_so():
    stacked = spaces(3)
    ring, generator = ReplayBuffer(stacked, 100, 1), np.random.default_rng(0)
    noise = torch.from_numpy(generator.integers(0, 256, (20, 1, 3, *FRAME), np.uint8))
    flags = torch.zeros(20, 1, dtype=torch.bool)
    outcomes = {"actions": flags.long(), "rewards": flags.float(), "terminated": flags, "truncated": flags}
    rollout = Batch(lead=2, observations=noise, next_observations=noise, **outcomes)
    with pytest.raises(EnvFault, match="not stacks of successive frames"):
        ring.add(rollout)


def test_a_row_of_four_atari_frames_takes_an_eighth():
    atari = spaces(4, frame=(84, 84))
    assert row_bytes(atari) == 84 * 84 + 40
    assert row_bytes(plainly(atari)) == 2 * 4 * 84 * 84 + 24
    ring = ReplayBuffer(atari, 1000, 1)
    assert ring.segment_rows == 4096
    assert ReplayBuffer(plainly(atari), 1000, 1).segment_rows == 512


def test_memory_is_not_committed_before_frames_arrive():
    resident = _resident_kb()
    ring = ReplayBuffer(spaces(4, frame=(84, 84)), 1_000_000, 1)  # 7 GB when full
    ring.add(Film(spaces(4, frame=(84, 84)), 1, 0, 5.0).rollout(20))
    assert _resident_kb() - resident < 50_000


def _resident_kb() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_segments_of_small_rows_are_as_they_always_were():
    line = Spaces(Box((4,), "float32", (-1,), (1,)), Discrete(2))
    assert ReplayBuffer(line, 10, 1).segment_rows == replay_module.SEGMENT_ROWS == 16_384
