"""`plot` over time and as a document, and the curve that `show` has in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstudio.experiment.analysis.curves import envelope
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.records import CURRENT, Record, to_line
from support.cli_scenario import Rlctl
from support.measured_runs import learning, measured_run

EVALUATION = "eval/return_mean"


@pytest.fixture
def timed(place: Path) -> list[str]:
    """Two runs of a group, each measured four times: every 10 and every 20 seconds."""
    return timed_runs(place, 10, 20)


def timed_runs(place: Path, *periods: float) -> list[str]:
    ids = []
    for seed, seconds in enumerate(periods):
        run_id = measured_run(place / "runs", "timed", seed, {})
        lines = [Record(1e9 + number * seconds, number * 1000, EVALUATION, number * 10.0) for number in range(4)]
        (RunFolder(place / "runs" / run_id).path / CURRENT).write_bytes(b"".join(map(to_line, lines)))
        ids.append(run_id)
    return ids


def test_a_document_has_runs_and_the_band_over_them(rlctl: Rlctl, timed: list[str]) -> None:
    document = rlctl("plot", "timed", "--json").document
    (group,) = document["groups"]
    assert (document["metric"], document["x"], group["n"]) == (EVALUATION, "steps", 2)
    assert {run["id"] for run in group["runs"]} == set(timed)
    assert group["x"] == [0, 1000, 2000, 3000]
    assert group["iqm"] == group["low"] == group["high"] == [0, 10, 20, 30]


def test_over_time_a_curve_ends_with_the_shorter_run(rlctl: Rlctl, timed: list[str]) -> None:
    document = rlctl("plot", "timed", "--x", "time", "--json").document
    (group,) = document["groups"]
    assert sorted(run["x"][-1] for run in group["runs"]) == [30, 60]
    assert max(group["x"]) == 30
    assert "ends at 30 seconds" in document["notes"][0]
    chart = rlctl("plot", "timed", "--x", "time")
    assert "seconds since the start" in chart.out
    assert "at 30 seconds" in chart.out


def test_over_time_runs_of_about_the_same_length_are_not_told_to_differ(rlctl: Rlctl, place: Path) -> None:
    timed_runs(place, 0.190, 0.20)
    chart = rlctl("plot", "timed", "--x", "time")
    assert "at 0.57 seconds" in chart.out
    assert chart.err == ""


@pytest.mark.parametrize("options", [("--json", "--out", "curve.png"), ("--dark",)])
def test_a_document_and_a_chart_are_no_pictures(options: tuple[str, ...], rlctl: Rlctl, timed: list[str]) -> None:
    answer = rlctl("plot", "timed", *options)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "--out" in answer.err


def test_show_has_the_curve_in_one_line(rlctl: Rlctl, place: Path) -> None:
    measured_run(place / "runs", "curved", 0, learning(400, 0))
    measured_run(place / "runs", "bare", 1, {})
    (line,) = [line for line in rlctl("show", "curved").out.splitlines() if line.startswith("  curve")]
    assert "▁" in line
    assert "█" in line
    assert line.endswith(f"120.0 to 388.7 ({EVALUATION})")
    assert "\n  curve " not in rlctl("show", "bare").out


def test_very_many_points_become_means_between_extremes() -> None:
    xs = np.arange(10_000.0)
    ys = np.where(xs % 2 == 0, 1.0, 3.0)
    band = envelope(xs, ys, 100)
    assert len(band.xs) == 100
    assert (band.centre, band.low, band.high) == (pytest.approx(2.0), pytest.approx(1.0), pytest.approx(3.0))
    assert (np.diff(band.xs) > 0).all()
