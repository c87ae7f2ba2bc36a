"""Automatic domain randomisation: boundaries that widen and narrow, by hand."""

from __future__ import annotations

from math import isnan, log

import pytest

from rlstudio.envs.params.distributions import Constant, Uniform
from rlstudio.experiment.curriculum.adr import Adr
from rlstudio.experiment.curriculum.episodes import Episodes, Measure
from rlstudio.experiment.curriculum.sections import AdrConfig

X_LOW, X_HIGH, Z_LOW, Z_HIGH = 1, 2, 3, 4


def adr(**changes) -> Adr:
    ranges = {
        "x": {"start": [1.0, 1.0], "limits": [0.0, 2.5], "step": 1.0},
        "z": {"start": [4.0, 6.0], "limits": [4.0, 10.0], "step": 2.0},
    }
    settings = {"parameters": ranges, "metric": "return", "widen_at": 10, "narrow_at": 2, "buffer": 2}
    return Adr(AdrConfig(**{**settings, **changes}), {"y": Constant(5.0)}, Measure())


def at(component: int, *returns: float, version: int = 99) -> Episodes:
    n = len(returns)
    return Episodes(list(returns), [1] * n, {}, [component] * n, [version] * n)


def test_half_of_the_episodes_are_at_a_boundary_each_as_often():
    draw = adr().draw
    assert [component.weight for component in draw.components] == [0.5, *[0.125] * 4]
    assert [component.label for component in draw.components] == ["inside", "x low", "x high", "z low", "z high"]
    inside = {"y": Constant(5.0), "x": Uniform(1.0, 1.0), "z": Uniform(4.0, 6.0)}
    assert draw.components[0].params == inside
    assert draw.components[X_LOW].params == {**inside, "x": Constant(1.0)}
    assert draw.components[Z_HIGH].params == {**inside, "z": Constant(6.0)}


def test_a_boundary_moves_outwards_where_its_episodes_go_well_up_to_its_limit():
    curriculum = adr()
    assert curriculum.update(at(X_HIGH, 10.0), 10).changes == ()
    (change,) = curriculum.update(at(X_HIGH, 10.0), 20).changes
    assert change == ("curriculum_range", {"parameter": "x", "low": 1.0, "high": 2.0})
    assert curriculum.version == 1
    curriculum.update(at(X_HIGH, 10.0, 10.0), 30)
    assert curriculum.range("x") == (1.0, 2.5)
    assert curriculum.update(at(X_HIGH, 10.0, 10.0), 40).changes == ()  # at its limit
    assert curriculum.version == 2
    curriculum.update(at(X_LOW, 10.0, 10.0), 50)
    assert curriculum.range("x") == (0.0, 2.5)
    assert curriculum.range("z") == (4.0, 6.0)


def test_it_moves_back_where_they_go_badly_never_beyond_its_start():
    curriculum = adr()
    assert curriculum.update(at(Z_HIGH, 0.0, 0.0), 10).changes == ()
    for _ in range(3):
        curriculum.update(at(Z_HIGH, 10.0, 10.0), 20)
    assert curriculum.range("z") == (4.0, 10.0)
    curriculum.update(at(Z_HIGH, 1.0, 3.0), 30)
    assert curriculum.range("z") == (4.0, 8.0)
    curriculum.update(at(Z_HIGH, 0.0, 0.0), 40)
    curriculum.update(at(Z_HIGH, 0.0, 0.0), 50)
    assert curriculum.range("z") == (4.0, 6.0)


def test_between_the_thresholds_counting_begins_anew():
    curriculum = adr()
    curriculum.update(at(X_HIGH, 5.0, 5.0), 10)
    curriculum.update(at(X_HIGH, 10.0), 20)
    assert curriculum.range("x") == (1.0, 1.0)
    curriculum.update(at(X_HIGH, 10.0), 30)
    assert curriculum.range("x") == (1.0, 2.0)


def test_episodes_inside_and_those_of_an_older_boundary_do_not_count():
    curriculum = adr()
    curriculum.update(at(0, 10.0, 10.0, 10.0), 10)
    assert curriculum.version == 0
    curriculum.update(at(X_HIGH, 10.0, 10.0, version=0), 20)
    assert curriculum.version == 1
    curriculum.update(at(X_HIGH, 0.0, 0.0, 0.0, version=0), 30)  # began before the boundary moved
    assert curriculum.range("x") == (1.0, 2.0)
    curriculum.update(at(X_HIGH, 0.0, 0.0, version=1), 40)
    assert curriculum.range("x") == (1.0, 1.0)


def test_entropy_and_width():
    curriculum = adr()
    measured = curriculum.metrics()
    assert isnan(measured["entropy"])  # x is one point
    assert measured["width"] == pytest.approx((0 / 2.5 + 2 / 6) / 2)
    curriculum.update(at(X_HIGH, 10.0, 10.0), 10)
    measured = curriculum.metrics()
    assert measured["entropy"] == pytest.approx((log(1.0) + log(2.0)) / 2)
    assert (measured["x_low"], measured["x_high"]) == (1.0, 2.0)
