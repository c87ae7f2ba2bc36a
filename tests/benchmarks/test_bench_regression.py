"""Learning got worse where a whole interval says so, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.settings import OURS

from benchmarks import learning, regression


def lines(cell: str, means: list[float], identity: str = "same") -> list[dict[str, Any]]:
    return [
        {"cell": cell, "side": OURS, "seed": seed, "identity": identity, "returns": [mean, mean]}
        for seed, mean in enumerate(means)
    ]


STORED = lines("a", [480.0, 490.0, 500.0, 495.0, 485.0, 500.0, 478.0, 492.0, 499.0, 500.0])


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        ([480.0, 490.0, 500.0, 495.0, 485.0], "no difference"),
        ([300.0, 310.0, 290.0, 305.0, 280.0], "**worse**"),
        ([489.0, 489.5, 490.0, 489.1, 489.2], "no difference"),  # below, by less than one percent
        ([510.0, 512.0, 511.0, 513.0], "better"),
        ([1.0, 2.0], "too few seeds (3 of each are needed)"),
    ],
)
def test_a_cell_is_judged_by_the_interval_of_the_difference(new: list[float], verdict: str) -> None:
    (result,) = regression.differences(STORED, lines("a", new), OURS)
    assert result.verdict == verdict
    assert result.is_regression == (verdict == "**worse**")
    assert result.low <= result.after - result.before <= result.high
    assert verdict in regression.report([result])


def test_other_configs_and_other_cells_are_no_comparison() -> None:
    assert regression.differences(STORED, lines("a", [1.0] * 5, identity="another"), OURS) == []
    assert regression.differences(STORED, lines("b", [1.0] * 5), OURS) == []


@pytest.mark.parametrize(("shift", "code"), [(0.0, 0), (-300.0, 1)])
def test_the_command_fails_on_a_regression_and_changes_nothing_stored(
    shift: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = learning.CELLS[1]
    wanted = learning.tasks([cell], OURS, seeds=5, episodes=2)
    stored, out = tmp_path / "stored.jsonl", tmp_path / "new.jsonl"
    for task in wanted:
        line = {"cell": task.cell.key, "side": OURS, "seed": task.seed, "identity": task.identity}
        learning.append(stored, {**line, "returns": [480.0 + task.seed] * 2})
        learning.append(out, {**line, "returns": [480.0 + task.seed + shift] * 2})
    before = stored.read_bytes()
    monkeypatch.setattr(learning, "train", lambda work, *_: len(work))  # nothing is missing, so nothing fails
    options = ["--cells", cell.key, "--seeds", "5", "--episodes", "2", "--out", str(out)]
    args = learning.arguments(["--against", str(stored), *options])
    assert learning.compare_with(stored, args) == code
    assert ("**worse**" in capsys.readouterr().out) == bool(code)
    assert stored.read_bytes() == before
    with pytest.raises(SystemExit, match="no such file"):
        learning.compare_with(tmp_path / "none", args)


def test_the_stored_table_is_of_the_configs_that_ship() -> None:
    """A field that says nothing must not throw away what took days to train."""
    current = [line for line in learning.current_lines(learning.read_store(), 10) if line["side"] == OURS]
    assert {line["cell"] for line in current} == {cell.key for cell in learning.CELLS}
