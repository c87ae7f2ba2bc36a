"""Prioritised level replay: probabilities against the formula, written out."""

from __future__ import annotations

from math import exp, log, nan

import numpy as np
import pytest

from rlstudio.envs.params.distributions import Constant
from rlstudio.experiment.curriculum.episodes import Episodes, Measure
from rlstudio.experiment.curriculum.levels import Levels, rank_weights
from rlstudio.experiment.curriculum.sections import LevelsConfig, SuccessConfig


def levels(count: int = 3, **changes) -> Levels:
    cfg = LevelsConfig(**{"count": count, "temperature": 0.5, "staleness": 0.2, "memory": 0.5, **changes})
    return Levels(cfg, {"y": Constant(5.0)}, Measure(SuccessConfig(at_least=1)))


def played(*pairs: tuple[int, float]) -> Episodes:
    n = len(pairs)
    return Episodes([value for _, value in pairs], [1] * n, {}, [level for level, _ in pairs], [0] * n)


def test_before_anything_was_played_all_levels_are_alike():
    curriculum = levels(4)
    assert [c.weight for c in curriculum.draw.components] == [0.25] * 4
    assert curriculum.draw.components[2].params == {"y": Constant(5.0), "level": Constant(2.0)}
    assert curriculum.draw.version == 0


def test_the_probabilities_are_those_of_the_paper():
    """Success rates 0.5, 1, 0: scores 0.55 x 0.5, 0, 0.05; ranks 1, 3, 2; ages 1, 0, 3."""
    curriculum = levels()
    curriculum.update(played((2, 0.0), (0, 0.0), (0, 1.0), (1, 1.0)), 100)
    assert curriculum.mean_L.tolist() == [0.5, 1.0, 0.0]
    assert curriculum.scores().tolist() == pytest.approx([0.275, 0.0, 0.05])
    by_score = np.array([1.0, 1 / 3**2, 1 / 2**2])  # 1 / temperature = 2
    by_age = np.array([4 - 3, 4 - 4, 4 - 1])
    expected = 0.8 * by_score / by_score.sum() + 0.2 * by_age / by_age.sum()
    weights = [component.weight for component in curriculum.draw.components]
    assert weights == pytest.approx(expected.tolist(), rel=1e-12)
    assert curriculum.draw.version == 1


def test_a_level_that_was_never_solved_comes_before_one_that_is_all_but_solved():
    curriculum = levels()
    curriculum.update(played((0, 1.0), (1, 0.0), (2, 0.0), *[(2, 1.0)] * 6), 100)
    assert curriculum.mean_L[2] > 0.98
    _, unsolved, nearly = curriculum.weights()
    by_score = curriculum.scores()
    assert by_score[1] > by_score[2] > by_score[0]
    assert unsolved > nearly


def test_what_was_never_played_gets_the_share_that_is_not_replayed():
    curriculum = levels(4, replay=0.25, staleness=0.0)
    curriculum.update(played((1, 1.0)), 10)
    assert curriculum.weights().tolist() == pytest.approx([0.25, 0.25, 0.25, 0.25])
    curriculum.update(played((3, 1.0), (3, 0.0)), 20)
    ranked = np.array([1 / 2**2, 1.0]) / (1 + 1 / 2**2)  # level 1 is known, level 3 is in between
    assert curriculum.weights().tolist() == pytest.approx([0.375, 0.25 * ranked[0], 0.375, 0.25 * ranked[1]])


def test_ranks_not_scores_decide_and_equal_scores_are_alike():
    assert rank_weights(np.array([9.0, 3.0, 1.0]), 1.0).tolist() == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert rank_weights(np.array([9.0, 8.9, 1.0]), 1.0).tolist() == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert rank_weights(np.array([0.0, 0.0, 0.0, 0.0]), 0.1).tolist() == [0.25] * 4
    tied = np.array([1 / 1.5, 1 / 1.5, 1 / 3])
    assert rank_weights(np.array([1.0, 1.0, 0.0]), 1.0).tolist() == pytest.approx((tied / tied.sum()).tolist())
    assert np.isfinite(rank_weights(np.arange(1000.0), 1e-3)).all()


def test_regret_is_the_best_return_less_the_mean_one():
    curriculum = levels(2, score="regret")
    curriculum.update(played((0, 4.0), (0, 2.0), (1, -1.0)), 10)
    assert curriculum.mean_L.tolist() == [3.0, -1.0]
    assert curriculum.scores().tolist() == [1.0, 0.0]
    curriculum.update(played((0, 5.0)), 20)
    assert curriculum.scores().tolist() == [1.0, 0.0]  # best 5, mean 4


def test_an_episode_without_a_number_says_nothing():
    curriculum = levels(2)
    curriculum.update(played((0, nan)), 10)
    assert (curriculum.now, curriculum.weights().tolist()) == (0, [0.5, 0.5])


def test_metrics_say_how_much_was_played_and_how_spread_it_is():
    curriculum = levels(4, staleness=0.0)
    assert curriculum.metrics() == pytest.approx({"played": 0.0, "entropy": log(4), "score": 0.05, "solved": 0.0})
    curriculum.update(played((0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)), 10)
    measured = curriculum.metrics()
    assert (measured["played"], measured["solved"]) == (1.0, 1.0)
    assert exp(measured["entropy"]) == pytest.approx(4.0)
