"""What chance does to an experiment: against closed forms and tables of Student's t."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstudio.control.runs.looking.measured import measured_groups
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.analysis.seed_variance import (
    SeedVariance,
    detectable_difference,
    seed_variance,
    t_quantile,
)
from support.measured_runs import Curves, measured_run


def variance_of(tmp_path: Path, values: list[float], **others: Curves) -> SeedVariance:
    """Of runs that end at these values, from 0 on."""
    for seed, value in enumerate(values):
        metrics = {"eval/return_mean": [(0, 0.0), (500, value / 2), (1000, value)], **others}
        measured_run(tmp_path / "runs", "group", seed, metrics)
    (group,) = measured_groups(Workspace(tmp_path / "runs").entries())
    return seed_variance(group)


@pytest.mark.parametrize(
    ("share", "freedom", "known"),
    [(0.975, 4, 2.776), (0.975, 10, 2.228), (0.975, 18, 2.101), (0.975, 38, 2.024), (0.95, 8, 1.860)],
)
def test_quantiles_of_student(share: float, freedom: int, known: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(known, rel=0.006)


def test_a_detectable_difference_is_detected_in_four_of_five_experiments() -> None:
    generator, runs = np.random.default_rng(0), 10
    shift = detectable_difference(1.0, runs)
    first, second = generator.normal(0, 1, (20_000, runs)), generator.normal(shift, 1, (20_000, runs))
    error = np.sqrt((first.var(1, ddof=1) + second.var(1, ddof=1)) / runs)
    found = np.abs(first.mean(1) - second.mean(1)) / error > t_quantile(0.975, 2 * runs - 2)
    assert found.mean() == pytest.approx(0.8, abs=0.02)
    assert shift > detectable_difference(1.0, 40) > detectable_difference(0.5, 40)


def test_spread_over_seeds_along_the_run(tmp_path: Path) -> None:
    of = variance_of(tmp_path, [80.0, 90.0, 100.0, 110.0, 120.0])
    assert (of.runs, of.mean.value, of.lowest, of.highest) == (5, 100.0, 80.0, 120.0)
    assert of.std.value == pytest.approx(np.std([80, 90, 100, 110, 120], ddof=1))
    assert of.std.low < of.std.value
    assert [point.step for point in of.drift] == [250, 500, 750, 1000]
    assert [point.std / of.std.value for point in of.drift] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert of.notes == ()


def test_what_of_the_variance_is_evaluation(tmp_path: Path) -> None:
    """Returns of episodes with a standard deviation of 20, 4 of them: a mean of them has one of 10."""
    noisy = {"eval/return_std": [(1000, 20.0)], "eval/episodes": [(1000, 4.0)]}
    of = variance_of(tmp_path, [80.0, 90.0, 100.0, 110.0, 120.0], **noisy)
    assert of.noise_share == pytest.approx(100 / 250)


def test_seeds_that_all_end_alike_are_noted(tmp_path: Path) -> None:
    of = variance_of(tmp_path, [500.0] * 3)
    assert of.std.value == 0
    assert set(of.detectable.values()) == {0.0}
    assert any("same result" in note for note in of.notes)
    assert any("3 runs" in note for note in of.notes)


def test_one_run_has_no_variance_and_unfinished_ones_are_noted(tmp_path: Path) -> None:
    measured_run(tmp_path / "one", "lonely", 0, {"eval/return_mean": [(1, 1.0)]})
    (group,) = measured_groups(Workspace(tmp_path / "one").entries())
    with pytest.raises(UserError, match="at least two seeds"):
        seed_variance(group)
    for seed in range(2):
        state = RunState.FAILED if seed else RunState.COMPLETED
        measured_run(tmp_path / "two", "half", seed, {"eval/return_mean": [(1, float(seed))]}, state=state)
    (group,) = measured_groups(Workspace(tmp_path / "two").entries())
    assert "1 of 2 runs are not COMPLETED" in seed_variance(group).notes
