"""Closed forms of the interquartile mean, invariants of the bootstrap, and its coverage on known distributions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlstudio.ops.statistics import (
    bootstrap_interval,
    iqm,
    lower_confidence_bound,
    mean,
    probability_of_improvement,
    summarize,
)

SAMPLES = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6, allow_nan=False))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


# -- interquartile mean ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 5.0], 3.0),  # half of each
        ([0.0, 1.0, 5.0], (0.25 * 0 + 1 + 0.25 * 5) / 1.5),
        ([-100.0, 1.0, 3.0, 1000.0], 2.0),  # n / 4 is whole: the plain mean of the middle two
        ([1.0, 2.0, 3.0, 4.0, 90.0], (0.75 * 2 + 3 + 0.75 * 4) / 2.5),
        ([9.0, 0.0, 2.0, 4.0, 6.0, 8.0, 1.0, 3.0], (2 + 3 + 4 + 6) / 4),
    ],
)
def test_iqm_closed_forms(values: list[float], expected: float) -> None:
    assert float(iqm(values)) == pytest.approx(expected, rel=1e-15)


@given(SAMPLES)
def test_iqm_is_the_mean_of_the_middle_half_of_each_value_repeated_four_times(values: np.ndarray) -> None:
    """Repeating every value four times makes n / 4 whole without changing the distribution."""
    fine = np.sort(np.repeat(values, 4))
    middle = fine[len(values) : 3 * len(values)]
    assert float(iqm(values)) == pytest.approx(middle.mean(), rel=1e-9, abs=1e-6)


@given(SAMPLES, st.floats(-1e3, 1e3), st.floats(0.01, 100.0))
def test_iqm_moves_with_shift_and_scale_and_ignores_order(values: np.ndarray, shift: float, scale: float) -> None:
    moved = float(iqm(values[::-1] * scale + shift))
    assert moved == pytest.approx(float(iqm(values)) * scale + shift, rel=1e-9, abs=1e-4)
    assert values.min() - 1e-6 <= float(iqm(values)) <= values.max() + 1e-6


def test_iqm_reduces_the_last_axis() -> None:
    block = generator().normal(size=(3, 4, 11))
    rows = [[float(iqm(row)) for row in plane] for plane in block]
    np.testing.assert_allclose(iqm(block), rows, rtol=1e-13)


def test_iqm_ignores_one_outlier_of_eight() -> None:
    values = np.arange(8.0)
    assert float(iqm(np.append(values[:-1], 1e9))) == float(iqm(values))


# -- bootstrap ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_interval_is_a_function_of_values_and_generator(method: str) -> None:
    values = generator(1).exponential(size=20)
    first, second = (bootstrap_interval(values, generator(3), method=method) for _ in range(2))  # type: ignore[arg-type]
    assert first == second
    assert first != bootstrap_interval(values, generator(4), method=method)  # type: ignore[arg-type]


@given(SAMPLES, st.sampled_from(["percentile", "bca"]), st.sampled_from([mean, iqm]))
def test_interval_is_ordered_and_inside_the_data(values: np.ndarray, method: str, statistic: object) -> None:
    low, high = bootstrap_interval(values, generator(), statistic=statistic, method=method, resamples=200)  # type: ignore[arg-type]
    slack = 1e-9 * (1 + np.abs(values).max())
    assert values.min() - slack <= low <= high <= values.max() + slack


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_constant_and_single_samples_give_a_point(method: str) -> None:
    assert bootstrap_interval([5.0], generator(), method=method) == (5.0, 5.0)  # type: ignore[arg-type]
    assert bootstrap_interval([2.0] * 9, generator(), method=method) == (2.0, 2.0)  # type: ignore[arg-type]


def test_interval_of_two_values_is_known_exactly() -> None:
    """Resamples of {0, 1} have mean 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4."""
    assert bootstrap_interval([0.0, 1.0], generator(), confidence=0.40) == (0.5, 0.5)
    assert bootstrap_interval([0.0, 1.0], generator(), confidence=0.60) == (0.0, 1.0)


def test_wider_confidence_encloses_the_narrower() -> None:
    values = generator(5).normal(size=30)
    narrow = bootstrap_interval(values, generator(), confidence=0.5)
    wide = bootstrap_interval(values, generator(), confidence=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    values = generator(6).normal(size=50)
    whole = bootstrap_interval(values, generator(), method="bca")
    monkeypatch.setattr("rlstudio.ops.statistics.CHUNK", 777)
    assert bootstrap_interval(values, generator(), method="bca") == whole


def test_strata_keep_the_share_of_each_label() -> None:
    """Two constant groups far apart: pooled resampling varies their mix, stratified resampling cannot."""
    values, labels = [0.0] * 5 + [100.0] * 5, ["a"] * 5 + ["b"] * 5
    low, high = bootstrap_interval(values, generator())
    assert low < 40
    assert high > 60
    assert bootstrap_interval(values, generator(), strata=labels) == (50.0, 50.0)


def test_bca_leans_towards_the_long_tail() -> None:
    """Of a right-skewed sample the corrected interval lies to the right of the percentile interval."""
    values = generator(8).exponential(size=25) ** 2
    plain = bootstrap_interval(values, generator(), resamples=20000)
    corrected = bootstrap_interval(values, generator(), resamples=20000, method="bca")
    assert corrected[0] > plain[0]
    assert corrected[1] > plain[1]


@pytest.mark.parametrize(
    ("draw", "truth", "method", "at_least"),
    [
        (lambda g: g.normal(3.0, 2.0, size=30), 3.0, "percentile", 0.90),
        (lambda g: g.normal(3.0, 2.0, size=30), 3.0, "bca", 0.90),
        (lambda g: g.exponential(2.0, size=40), 2.0, "bca", 0.89),
        (lambda g: g.uniform(0.0, 1.0, size=20), 0.5, "bca", 0.89),
    ],
)
def test_95_percent_intervals_cover_the_truth(draw: object, truth: float, method: str, at_least: float) -> None:
    """Small samples cover a little less than the nominal 95 %; far less or always would be a defect."""
    source, trials = generator(11), 600
    hits = 0
    for _ in range(trials):
        low, high = bootstrap_interval(draw(source), source, resamples=400, method=method)  # type: ignore[operator, arg-type]
        hits += low <= truth <= high
    assert at_least <= hits / trials <= 0.985


def test_lower_bound_is_one_sided() -> None:
    values = generator(12).normal(size=40)
    bound = lower_confidence_bound(values, generator(), confidence=0.95)
    assert bound == bootstrap_interval(values, generator(), confidence=0.90)[0]
    assert bound > bootstrap_interval(values, generator(), confidence=0.95)[0]


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")], [[1.0, 2.0]]])
def test_values_that_are_no_sample_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        summarize(values, generator())


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval([1.0, 2.0], generator(), confidence=95)
    with pytest.raises(ValueError, match="strata must label"):
        bootstrap_interval([1.0, 2.0], generator(), strata=["a"])
    with pytest.raises(ValueError, match="percentile"):
        bootstrap_interval([1.0, 2.0], generator(), strata=["a", "b"], method="bca")


# -- summary --------------------------------------------------------------------------------------------------------


def test_summary_of_known_values() -> None:
    summary = summarize([1.0, 2.0, 3.0, 10.0], generator())
    assert (summary.n, summary.mean, summary.median, summary.iqm) == (4, 4.0, 2.5, 2.5)
    assert (summary.min, summary.max) == (1.0, 10.0)
    assert summary.std == pytest.approx(np.std([1, 2, 3, 10], ddof=1))
    assert 1.0 <= summary.ci_low < 4.0 < summary.ci_high <= 10.0
    assert list(summary.to_json()) == ["n", "mean", "std", "median", "iqm", "ci_low", "ci_high", "min", "max"]


def test_summary_of_one_value() -> None:
    summary = summarize([7.0], generator())
    assert summary.std == 0.0
    assert {summary.mean, summary.iqm, summary.ci_low, summary.ci_high, summary.min, summary.max} == {7.0}


def test_summary_needs_no_torch_and_no_scipy() -> None:
    import subprocess
    import sys

    code = "import sys, rlstudio.ops.statistics; sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- probability of improvement -------------------------------------------------------------------------------------


def test_improvement_counts_pairs_and_half_of_the_ties_on_each_task() -> None:
    certain = probability_of_improvement([([2, 3], [0, 1])], generator())
    assert certain == (1.0, 1.0, 1.0)
    assert probability_of_improvement([([1, 1], [1, 1])], generator()) == (0.5, 0.5, 0.5)
    assert probability_of_improvement([([0, 2, 4], [1, 3])], generator()).value == pytest.approx(3 / 6)
    two_tasks = probability_of_improvement([([0, 2], [1, 1]), ([5, 5], [1, 1])], generator())
    assert two_tasks.value == 0.75
    assert two_tasks.low == 0.5  # both resampled runs of the first task may be the lower one


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=9), st.lists(st.floats(-9, 9), min_size=1, max_size=9))
def test_improvement_of_one_side_is_what_the_other_lacks(mine: list[float], theirs: list[float]) -> None:
    forth = probability_of_improvement([(mine, theirs)], generator(), resamples=50)
    back = probability_of_improvement([(theirs, mine)], generator(), resamples=50)
    assert forth.value + back.value == pytest.approx(1.0)
    assert 0.0 <= forth.low <= forth.high <= 1.0
