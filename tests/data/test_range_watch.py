"""Observations far outside the space that an environment declares are noticed, once, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from rlstudio.core.spaces import Box, Dict, Discrete
from rlstudio.data.checks.range_watch import RangeWatch
from rlstudio.experiment.folder.run_folder import RunFolder
from support.env_toys import register_toys
from support.experiments import tiny
from support.sessions import start

CART = Box((2,), "float32", (-4.8, -3.4e38), (4.8, 3.4e38))


def block(*values: float) -> np.ndarray:
    """Two steps of two envs; the last observation of env 1 has these values."""
    rows = np.zeros((2, 2, len(values)), np.float32)
    rows[1, 1] = values
    return rows


@pytest.mark.parametrize("values", [(4.8, 0), (-14.3, 0), (0, 1e17), (0, -1e17), (9.7, 9.7)])
def test_row_27_a_little_outside_is_nothing(values: tuple[float, float]) -> None:
    assert RangeWatch(CART).look(block(*values)) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1e6, 0), "observation[0] is 1e+06, its space says -4.8 to 4.8"),
        ((0, 3e38), "observation[1] is 3e+38, its space says -3.4e+38 to 3.4e+38"),
        ((-14.5, 0), "observation[0] is -14.5, its space says -4.8 to 4.8"),
    ],
)
def test_row_27_far_outside_is_named_once(values: tuple[float, float], text: str) -> None:
    watch = RangeWatch(CART)
    assert watch.look(block(0, 0)) is None
    assert watch.look(block(*values)) == (1, 1, text)
    assert watch.look(block(*values)) is None


@pytest.mark.parametrize(("low", "high"), [(1, 2), (-2, -1), (3, 3)])
def test_row_27_ranges_that_begin_at_a_limit_are_watched_too(low: float, high: float) -> None:
    """One limit of 1 to 2 is 0, and 3 to 3 has no width: there is no unit to measure in, so every block is compared."""
    watch = RangeWatch(Box((1,), "float32", (low,), (high,)))
    inside = np.full((2, 2, 1), low, np.float32)
    assert watch.look(inside) is None
    assert watch.look(inside + 10) is not None


def test_row_27_each_entry_of_a_dict_has_its_own_range() -> None:
    watch = RangeWatch(Dict((("arm", Box((1,), "float32", (0,), (1,))), ("door", Discrete(3)))))
    doors = np.full((2, 2), 2)
    assert watch.look({"arm": block(1.5), "door": doors}) is None
    found = watch.look({"arm": block(100), "door": doors})
    assert found == (1, 1, "observation 'arm'[0] is 100, its space says 0 to 1")


def test_row_27_a_run_says_so_and_goes_on(tmp_path: Path) -> None:
    register_toys()
    env = {"id": "toys/Faulty-v0", "kwargs": {"fault": "far", "at": 30}, "max_episode_steps": 40}
    with start(tiny(env=env, train={"epochs": 2}), tmp_path) as session:
        reports = [tick.report for tick in session if tick.report is not None]
    assert [report.outside is None for report in reports] == [False, True]
    events = list(RunFolder(next(tmp_path.glob("2*"))).events())
    reasons = [event["reason"] for event in events if event["kind"] == "observations_outside"]
    (reason,) = reasons
    number = r"observation\[0\] is 3e\+38, its space says -1e\+06 to 1e\+06"
    assert re.fullmatch(rf"env 0, episode 0 \(seed \d+\), step 30: {number}; action \d", reason)
