"""Exploration in continuous actions: its moments, its bounds, what it remembers, and that it resumes exactly."""

import numpy as np
import pytest

from rlstudio.core.contracts import Place
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete
from rlstudio.data.collect.action_noise import GaussianNoise, OrnsteinUhlenbeck, RandomStart
from rlstudio.data.collect.noise import NoiseBlocks
from rlstudio.experiment.checkpoint.snapshot import capture, restore
from rlstudio.experiment.training.build import build
from rlstudio.testing.trainers import as_loaded, hash_of
from support.experiments import tiny

WIDE = Box((2,), "float32", (-1000, -4000), (1000, 4000))
NARROW = Box((2,), "float32", (-1, 0), (1, 0.5))


def place(step: int, num_envs: int) -> Place:
    return Place((step + 1) * num_envs, np.arange(num_envs), num_envs)


def play(explore, steps, num_envs, first=0, ends=()):
    """The pushed actions of an agent that does nothing; in `ends`, every episode ends after that step."""
    blocks = NoiseBlocks(explore.noise, Rng(5), num_envs)
    found = []
    for step in range(first, first + steps):
        found.append(explore(np.zeros((num_envs, 2), np.float32), blocks.at(step), None, place(step, num_envs)))
        if step in ends:
            explore.forget(np.arange(num_envs))
    return np.stack(found)


def test_gaussian_noise_has_the_stated_width_in_every_unit():
    pushed = play(GaussianNoise(WIDE, 0.1), 2000, 16)
    np.testing.assert_allclose(pushed.std((0, 1)), [100, 400], rtol=0.03)
    np.testing.assert_allclose(pushed.mean((0, 1)), 0, atol=10)


def test_drifting_noise_has_the_stated_width_and_correlation():
    pushed = play(OrnsteinUhlenbeck(WIDE, 0.1, steps=20), 6000, 64)[500:]
    np.testing.assert_allclose(pushed.std((0, 1)), [100, 400], rtol=0.05)
    for lag in (1, 10, 20):
        later, earlier = pushed[lag:, :, 0], pushed[:-lag, :, 0]
        assert np.corrcoef(later.ravel(), earlier.ravel())[0, 1] == pytest.approx(np.exp(-lag / 20), abs=0.03)


def test_drifting_noise_starts_from_zero_in_every_episode():
    """After k steps from zero the variance is std^2 (1 - exp(-2 k / steps))."""
    pushed = play(OrnsteinUhlenbeck(WIDE, 0.1, steps=50), 20, 4096, ends={9})
    for k in (1, 10):
        expected = 100 * np.sqrt(1 - np.exp(-2 * k / 50))
        assert pushed[k - 1, :, 0].std() == pytest.approx(expected, rel=0.05)
        assert pushed[9 + k, :, 0].std() == pytest.approx(expected, rel=0.05)


def test_only_the_environments_that_ended_forget():
    noise = OrnsteinUhlenbeck(WIDE, 0.5, steps=50)
    play(noise, 5, 3)
    before = noise.drift.copy()
    noise.forget(np.array([1]))
    assert not noise.drift[1].any()
    assert np.array_equal(noise.drift[[0, 2]], before[[0, 2]])


@pytest.mark.parametrize("explore", [GaussianNoise(NARROW, 3.0), OrnsteinUhlenbeck(NARROW, 3.0, 5.0),
                                     RandomStart(NARROW, 100)])  # fmt: skip
def test_no_action_leaves_its_bounds(explore):
    pushed = play(explore, 200, 4)
    assert pushed.dtype == np.float32
    assert (pushed >= [-1, 0]).all()
    assert (pushed <= [1, 0.5]).all()


def test_a_random_start_is_uniform_and_then_over():
    explore = RandomStart(NARROW, steps=4000)
    pushed = play(explore, 1500, 4)
    start, rest = pushed[:1000].reshape(-1, 2), pushed[1000:]
    np.testing.assert_allclose(start.mean(0), [0, 0.25], atol=0.03)
    np.testing.assert_allclose(start.std(0), np.array([2, 0.5]) / np.sqrt(12), rtol=0.03)
    assert not rest.any()


def test_what_comes_after_a_random_start_gets_its_own_noise():
    alone = play(GaussianNoise(WIDE, 0.1), 5, 2)
    after = play(RandomStart(WIDE, 0, GaussianNoise(WIDE, 0.1)), 5, 2)
    assert after.shape == alone.shape
    np.testing.assert_allclose(
        play(RandomStart(WIDE, 0, GaussianNoise(WIDE, 0.1)), 800, 8).std((0, 1)), [100, 400], rtol=0.05
    )


def test_it_resumes_exactly():
    build = lambda: RandomStart(WIDE, 6, OrnsteinUhlenbeck(WIDE, 0.3, 10.0))  # noqa: E731
    whole, cut, resumed = build(), build(), build()
    assert whole.remembers
    straight = play(whole, 12, 2, ends={7})
    for moment in (2, 3, 5, 8):
        cut = build()
        play(cut, moment, 2, ends={7})
        resumed = build()
        resumed.load_state_dict(cut.state_dict())
        assert np.array_equal(play(resumed, 12 - moment, 2, first=moment, ends={7}), straight[moment:])


def test_a_random_start_of_choices_takes_each_as_often_then_leaves_the_agent_alone():
    explore = RandomStart(Discrete(3), steps=3000)
    blocks = NoiseBlocks(explore.noise, Rng(5), 2)
    mine = np.full(2, 7)
    taken = np.concatenate([explore(mine, blocks.at(step), None, place(step, 2)) for step in range(1500)])
    assert taken.dtype == mine.dtype
    np.testing.assert_allclose(np.bincount(taken, minlength=3) / 3000, 1 / 3, atol=0.03)
    assert explore(mine, blocks.at(1500), None, place(1500, 2)) is mine


def test_a_worker_with_a_part_of_the_environments_goes_by_the_steps_of_all():
    """Of 8 environments two act here: the random start of 40 steps is over after 5 of theirs."""
    explore = RandomStart(Discrete(3), steps=40)
    blocks = NoiseBlocks(explore.noise, Rng(5), 2)
    agent = np.full(2, 7)
    taken = [explore(agent, blocks.at(step), None, Place((step + 1) * 8, np.array([4, 5]), 8)) for step in range(8)]
    assert [bool((actions == 7).all()) for actions in taken] == [False] * 5 + [True] * 3


def test_a_checkpoint_that_counted_the_random_steps_itself_goes_on_to_the_same_bits():
    """Older checkpoints have `taken` among the state of a random start."""
    whole, cut, resumed = (build(tiny("td3", train={"random_steps": 40})).trainer for _ in range(3))
    for trainer in (whole, cut):
        trainer.train_step()
    content = as_loaded(capture(cut, {}, seed=3, attempt=0, meta={}))
    explore = content["trainer_state"]["source"]["collector"]["explore"]
    assert set(explore) == {"after"}
    explore["taken"] = cut.source.env_steps
    restore(content, resumed, {})
    for trainer in (whole, resumed):
        for _ in range(4):
            trainer.train_step()
    assert hash_of(resumed) == hash_of(whole)
