"""Fewer points of a curve: no extreme is lost, and what was drawn once does not move."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.errors import UserError
from rlstudio.experiment.metrics.indexed.downsampling import FEWEST_POINTS, bucket_width, kept_points
from support.examples import examples

CURVES = st.lists(st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf]), min_size=1, max_size=300)
POINTS = st.integers(FEWEST_POINTS, 80)


def kept(values, points, first=0):
    return kept_points(np.array(values), np.arange(first, first + len(values)), points).tolist()


@examples(100)
@given(CURVES, POINTS, st.integers(0, 1000))
def test_first_last_and_extremes_are_kept_in_order_and_there_are_never_more(values, points, first):
    chosen = kept(values, points, first)
    assert len(chosen) <= points
    assert chosen == sorted(set(chosen))
    assert {0, len(values) - 1} <= set(chosen)
    finite = [value for value in values if math.isfinite(value)]
    if finite:
        assert {min(finite), max(finite)} <= {values[place] for place in chosen}
    assert any(math.isfinite(v) for v in values) or len(chosen) >= 1
    assert (len(finite) < len(values)) == any(not math.isfinite(values[place]) for place in chosen)


@examples(100)
@given(CURVES, POINTS)
def test_each_bucket_keeps_its_own_extremes(values, points):
    finite = [value if math.isfinite(value) else 0.0 for value in values]
    chosen = kept(finite, points)
    if len(finite) > points:
        width = bucket_width(0, len(finite) - 1, (points - 2) // 2)
        for start in range(0, len(finite), width):
            bucket = finite[start : start + width]
            of_it = {finite[place] for place in chosen if start <= place < start + width}
            assert {min(bucket), max(bucket)} <= of_it


@examples(100)
@given(CURVES, CURVES, POINTS)
def test_what_was_chosen_of_full_buckets_stays_as_points_are_added(values, more, points):
    values, more = np.nan_to_num(values).tolist(), np.nan_to_num(more).tolist()
    before, after = kept(values, points), kept([*values, *more], points)
    width = bucket_width(0, len(values) - 1, (points - 2) // 2)
    if len(values) > points and width == bucket_width(0, len(values) + len(more) - 1, (points - 2) // 2):
        full = len(values) // width * width
        assert [place for place in before if place < full] == [place for place in after if place < full]


def test_a_part_of_a_curve_has_the_buckets_of_the_whole():
    values = np.sin(np.arange(1000.0)).tolist()
    whole = set(kept(values, 100))
    part = kept(values[320:640], 40, first=320)
    width = bucket_width(0, 999, 49)
    assert bucket_width(320, 639, 19) == width
    assert {place + 320 for place in part} - {320, 639} <= whole


def test_few_points_are_refused():
    with pytest.raises(UserError, match=f"points: 9 is too few to draw a curve; give {FEWEST_POINTS} or more"):
        kept([1.0, 2.0], 9)
