import random
from hashlib import sha256

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.rng import Rng, seed_all


def test_numbers_are_a_pure_function_of_seed_path_and_counter():
    first = Rng(7).fork("collector").at("noise", 3).random(5)
    other_order = Rng(7)
    other_order.fork("batcher").at("noise", 1).random(100)
    assert np.array_equal(first, other_order.fork("collector").at("noise", 3).random(5))


def test_numbers_never_change_between_releases():
    assert Rng(1).fork("a").generator(2).integers(0, 10**9, 3).tolist() == [923517083, 51587188, 7589948]


@given(st.integers(0, 2**32 - 1), st.text(max_size=5), st.integers(0, 2**40))
def test_neighbours_share_nothing(seed, name, counter):
    here = Rng(seed).fork("x" + name)
    numbers = here.generator(counter).integers(0, 2**63, 8)
    for other in (
        here.generator(counter + 1),
        Rng(seed).fork("y" + name).generator(counter),
        here.fork(0).generator(counter),
    ):
        assert not set(numbers.tolist()) & set(other.integers(0, 2**63, 8).tolist())


def test_a_place_is_a_key_of_philox_and_generators_of_one_place_go_their_own_ways():
    place, key = Rng(3, "here"), np.frombuffer(sha256(b"rlstudio:3:here").digest()[:16], np.uint64)
    first, second = place.generator(1), place.generator(2)
    taken = first.random(4), second.random(4), first.random(4)
    for numbers, counter in ((np.concatenate(taken[::2]), 1), (taken[1], 2)):
        philox = np.random.Philox(key=key, counter=[0, 0, counter, 0])
        assert np.array_equal(numbers, np.random.Generator(philox).random(len(numbers)))


def test_a_stream_is_uniform():
    draws = np.concatenate([Rng(0).generator(i).random(10) for i in range(2000)])
    assert abs(draws.mean() - 0.5) < 0.01
    counts, _ = np.histogram(draws, 10, (0, 1))
    assert np.abs(counts - 2000).max() < 200


def test_seed_all_seeds_every_global_generator_and_reports_it():
    report = seed_all(5)
    first = (random.random(), np.random.random(), torch.rand(()).item())
    assert seed_all(5) == report
    assert (random.random(), np.random.random(), torch.rand(()).item()) == first
    assert seed_all(6) != report
    assert set(report.to_json()) == {"seed", "deterministic", "python", "numpy", "torch", "envs"}


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seed_all_refuses_what_numpy_cannot_take(seed):
    with pytest.raises(ValueError, match="seed must be between"):
        seed_all(seed)
