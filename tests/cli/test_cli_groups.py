"""Groups of runs, drawn, compared and exported by their names. No run here was trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlstudio.core.run_state import RunState
from support.cli_scenario import Rlctl
from support.measured_runs import learning, measured_run

RUNS = Path("runs")


@pytest.fixture
def two_groups(place: Path) -> dict[str, list[str]]:
    """Ten runs of each of two groups; those of the second earn about 300 instead of 200."""
    return {
        name: [measured_run(RUNS, name, seed, learning(best, seed), lr=lr) for seed in range(10)]
        for name, best, lr in (("lr1e-3", 200.0, 1e-3), ("lr1e-4", 300.0, 1e-4))
    }


# -- plot -------------------------------------------------------------------------------------------------------------


def test_a_name_draws_all_its_runs_with_a_band_and_their_number(rlctl: Rlctl, two_groups: dict[str, list[str]]) -> None:
    """Newcomer S2: `rlctl plot NAME NAME` silently drew one seed of each."""
    done = rlctl("plot", "lr1e-3", "lr1e-4", "--out", "bands.svg")
    assert (done.code, done.out, done.err) == (0, "bands.svg\n", "")
    picture = Path("bands.svg").read_text()
    for words in ("lr1e-3 (n=10)", "lr1e-4 (n=10)", "IQM of n runs, 95 % bootstrap interval", "eval/return_mean"):
        assert f"<!-- {words} -->" in picture
    assert "FillBetweenPolyCollection_2" in picture  # two bands


def test_the_terminal_has_one_chart_with_a_legend(rlctl: Rlctl, two_groups: dict[str, list[str]]) -> None:
    """Newcomer S2: in the terminal the two curves came as two charts with different axes."""
    done = rlctl("plot", "lr1e-3", "lr1e-4")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("environment steps") == 1
    *_, first, second, interval = done.out.splitlines()
    assert first.startswith("A lr1e-3 (n=10): 198.9 [")
    assert second.startswith("B lr1e-4 (n=10): 296.0 [")
    assert second.endswith(" at 10,000 steps")
    assert interval == "IQM of n runs, 95 % bootstrap interval"


def test_one_group_by_filters_paths_and_handles(rlctl: Rlctl, two_groups: dict[str, list[str]]) -> None:
    measured_run(RUNS, "moon", 0, learning(5.0, 0), env_id="LunarLander-v3")
    assert "moon (n=1): " in rlctl("plot", "--env", "lunarlander-v3").out
    first, second, *_ = two_groups["lr1e-3"]
    assert "lr1e-3 (n=2): " in rlctl("plot", f"runs/{first}", second[-4:]).out
    assert rlctl("plot").err.startswith("rlctl: no run is named; give RUN")
    assert "there are: 21 completed" in rlctl("plot", "--state", "failed").err


def test_few_evaluations_draw_the_training_return_and_say_so(rlctl: Rlctl, place: Path) -> None:
    """Newcomer S4: curves start at the first evaluation, and there may be one or two of them."""
    measured_run(RUNS, "short", 0, learning(50.0, 0, evaluations=2))
    done = rlctl("plot", "short")
    assert done.out.startswith("rollout/return_mean\n")
    assert done.err == (
        "rlctl: note: short: at most 2 evaluations of each run, too few for a curve, so the training return"
        " (rollout/return_mean) is drawn; --metric eval/return_mean draws the evaluations\n"
    )
    asked = rlctl("plot", "short", "--metric", "eval/return_mean")
    assert (asked.err, asked.out.splitlines()[0]) == ("", "eval/return_mean")


def test_runs_of_one_name_and_different_settings_are_different_curves(rlctl: Rlctl, place: Path) -> None:
    for seed, lr in ((0, 1e-3), (1, 1e-3), (0, 1e-4)):
        measured_run(RUNS, "cartpole", seed, learning(50.0, seed), lr=lr)
    out = rlctl("plot", "cartpole").out
    assert "A cartpole train.lr=0.001 (n=2): " in out
    assert "B cartpole train.lr=0.0001 (n=1): " in out


def test_runs_that_are_not_drawn_to_their_end_are_named(rlctl: Rlctl, place: Path) -> None:
    measured_run(RUNS, "group", 0, learning(50.0, 0))
    shorter = measured_run(RUNS, "group", 1, learning(50.0, 1, evaluations=4))
    empty = measured_run(RUNS, "group", 2, {}, state=RunState.FAILED)
    done = rlctl("plot", "group")
    assert "group (n=2): " in done.out
    assert done.err.splitlines() == [
        f"rlctl: note: group: 1 of 3 without eval/return_mean, left out: {empty}",
        f"rlctl: note: group: the curve ends at 4,000 steps with run {shorter}; the longest run has 10,000",
    ]
