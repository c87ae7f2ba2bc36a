"""The pictures of a sweep, and what is said before it begins."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.control.sweep.charts import MOST_TICKS, draw, log_ticks
from rlstudio.control.sweep.config import SweepConfig
from rlstudio.control.sweep.report import SweepSummary
from rlstudio.control.sweep.sweeps import Trial, TrialState
from rlstudio.core.errors import Notice
from support.sweep_world import search_of


def texts(picture: Path) -> list[str]:
    """Matplotlib writes each text as a comment beside its outlines."""
    return re.findall(r"<!-- (.+?) -->", picture.read_text())


def test_the_log_axes_of_a_scatter_have_plain_numbers_below_them(tmp_path: Path) -> None:
    """Newcomer S3: scatter.svg of every sweep with `log: true` showed the raw text $\\mathdefault{10^{-4}}$."""
    space: Any = {
        "train.lr": {"low": 1e-5, "high": 1e-2, "log": True},
        "train.clip": {"low": 0.1, "high": 0.4, "log": True},
        "train.batch_size": {"low": 16, "high": 1024, "log": True, "type": "int"},
    }
    cfg = SweepConfig(name="toy", experiment={}, trials=2, space=space)
    trials = [
        Trial(0, {"train.lr": 1e-4, "train.clip": 0.2, "train.batch_size": 64}, 9, TrialState.COMPLETED, {9: {0: 1.0}}),
        Trial(1, {"train.lr": 3e-3, "train.clip": 0.3, "train.batch_size": 32}, 3, TrialState.PRUNED, {3: {0: 2.0}}),
    ]
    sweep: Any = type("Named", (), {"name": "toy"})
    _, scatter = draw(SweepSummary(sweep, cfg, trials, []), tmp_path)
    labels = texts(scatter)
    assert {"1e-5", "1e-4", "1e-3", "0.01", "0.1", "0.2", "0.3", "0.4", "20", "100", "500"} <= set(labels)
    assert "toy: 2 trials (x: pruned)" in labels
    assert not [label for label in labels if "$" in label or "{" in label]


@given(st.floats(-30, 29), st.floats(0.001, 30))
def test_ticks_of_a_log_axis_are_few_and_within_it(low: float, decades: float) -> None:
    first, last = 10**low, 10 ** (low + decades)
    ticks = log_ticks(first, last)
    assert 2 <= len(ticks) <= MOST_TICKS
    assert ticks == sorted(set(ticks))
    assert first <= ticks[0] < ticks[-1] <= last


def test_tpe_that_never_begins_is_said_before_the_first_trial() -> None:
    """Newcomer S4: `sampler: tpe` with 6 trials was a random search without a word."""
    with pytest.warns(Notice, match=r"first 10 trials at random .* trials is 6, so this is a random search; raise"):
        search_of(trials=6, sampler={"kind": "tpe"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        search_of(trials=11, sampler={"kind": "tpe"})
        search_of(trials=6, sampler={"kind": "tpe", "startup_trials": 3})
        search_of(trials=6)
