"""Comparing runs: only what differs, the first value that does, and never a whole file in memory."""

from __future__ import annotations

import math
import tracemalloc
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.problems import dotted
from rlstudio.experiment.analysis.compare_runs import (
    ABSENT,
    Difference,
    Divergence,
    MetricsComparison,
    compare_metrics,
    compare_runs,
    differences,
)
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.records import CLOCK, Record
from rlstudio.experiment.metrics.writer import MetricsWriter

Row = tuple[int, str, float]


def write(run_dir: Path, rows: list[Row], ts: float = 1.0, rotate_mb: float = 64.0) -> Path:
    run_dir.mkdir(parents=True, exist_ok=True)
    writer = MetricsWriter(run_dir, rotate_mb=rotate_mb)
    writer.write([Record(ts, step, key, value) for step, key, value in rows])
    writer.flush()
    writer.close()
    return run_dir


def compared(left: list[Row], right: list[Row]) -> MetricsComparison:
    with TemporaryDirectory() as folder:
        return compare_metrics(write(Path(folder, "left"), left), write(Path(folder, "right"), right, ts=2.0))


# -- fields -----------------------------------------------------------------------------------------------------------


def test_only_differing_fields_with_the_absent_ones_as_absent() -> None:
    left = {"name": "a", "train": {"lr": 0.1, "passes": 4}, "net": {"sizes": [8]}, "old": None, "same": {}}
    right = {"name": "a", "train": {"lr": 0.2, "passes": 4}, "net": {"sizes": [8, 8]}, "new": {"x": 1}, "same": {}}
    found = differences(left, right)
    assert found == [
        Difference("train.lr", 0.1, 0.2),
        Difference("net.sizes", [8], [8, 8]),
        Difference("old", None, ABSENT),
        Difference("new.x", ABSENT, 1),
    ]
    assert found[2].to_json() == {"field": "old", "left": None}
    assert found[3].to_json() == {"field": "new.x", "right": 1}


def test_sections_in_a_list_are_compared_one_by_one() -> None:
    left = {"gates": [{"metric": "a", "min": 1}, {"metric": "b", "min": 2}]}
    right = {"gates": [{"metric": "a", "min": 1}, {"metric": "b", "min": 3}]}
    assert differences(left, right) == [Difference("gates[1].min", 2, 3)]


@pytest.mark.parametrize(("a", "b"), [(True, 1), (1, 1.0), (0.0, -0.0), ("1", 1), (None, "null"), ({}, None), ([], {})])
def test_values_of_another_kind_differ(a, b) -> None:
    assert differences({"x": a}, {"x": b}) == [Difference("x", a, b)]


def test_a_section_against_a_value() -> None:
    assert differences({"x": 1}, {"x": {"y": 1}}) == [Difference("x", 1, ABSENT), Difference("x.y", ABSENT, 1)]


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(trees, trees)
def test_no_difference_means_equal_and_sides_swap(left, right) -> None:
    assert differences(left, left) == []
    found = differences(left, right)
    assert bool(found) == (repr(_sorted(left)) != repr(_sorted(right)))
    swapped = {(entry.field, repr(entry.right), repr(entry.left)) for entry in differences(right, left)}
    assert {(entry.field, repr(entry.left), repr(entry.right)) for entry in found} == swapped


def _sorted(tree):
    if isinstance(tree, dict):
        return {key: _sorted(tree[key]) for key in sorted(tree)}
    return [_sorted(inner) for inner in tree] if isinstance(tree, list) else tree


@given(st.dictionaries(st.text(max_size=3), scalars, min_size=1, max_size=5), st.data())
def test_a_changed_field_is_the_one_told(tree, data) -> None:
    name = data.draw(st.sampled_from(sorted(tree)))
    changed = {**tree, name: "something else entirely"}
    assert [entry.field for entry in differences({"a": tree}, {"a": changed})] == [dotted(("a", name))]


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_the_first_value_that_differs_and_the_largest_difference_of_its_step() -> None:
    left = [(64, "loss", 1.0), (64, "kl", 2.0), (128, "loss", 3.0), (128, "kl", 4.0), (128, "same", 5.0)]
    right = [
        (64, "loss", 1.0),
        (64, "kl", 2.0),
        (128, "loss", 3.0000000000000004),
        (128, "kl", 2.0),
        (128, "same", 5.0),
    ]
    found = compared(left, right)
    assert (found.same_values, found.same_up_to, found.longer, found.equal) == (2, 64, None, False)
    assert found.divergence == Divergence(128, "loss", 3.0, 3.0000000000000004, 0.5, "kl")


def test_the_same_bits_are_the_same(tmp_path: Path) -> None:
    rows = [(step, key, value) for step in range(9) for key, value in [("a", math.nan), ("b", math.inf), ("c", -0.0)]]
    left = write(tmp_path / "left", rows)
    right = write(tmp_path / "right", rows, ts=7.0)
    assert compare_metrics(left, right) == MetricsComparison(27, 8)


@pytest.mark.parametrize(
    ("a", "b", "largest"),
    [
        (0.0, -0.0, 0.0),
        (math.nan, 1.0, math.inf),
        (math.inf, -math.inf, math.inf),
        (1e308, -1e308, 2.0),
        (0, 5e-324, 1),
    ],
)
def test_values_at_the_edges(a: float, b: float, largest: float) -> None:
    apart = compared([(1, "x", float(a))], [(1, "x", b)]).divergence
    assert apart is not None
    assert (apart.step, apart.key, apart.largest, apart.largest_key) == (1, "x", largest, "x")
    assert repr((apart.left, apart.right)) == repr((float(a), b))


def test_a_nan_in_json_is_text() -> None:
    apart = compared([(1, "x", math.nan)], [(1, "x", 1.0)]).divergence
    assert apart.to_json() == {
        "step": 1,
        "key": "x",
        "left": "nan",
        "right": 1.0,
        "largest_relative_difference": "inf",
        "largest_key": "x",
    }


def test_clock_values_and_time_stamps_are_ignored(tmp_path: Path) -> None:
    rows = [(step, "loss", float(step)) for step in range(5)]
    left, right = write(tmp_path / "left", rows), write(tmp_path / "right", rows, ts=9.0)
    writer = MetricsWriter(right)
    writer.write([Record(9.0, 5, "steps_per_second", 7.0, (CLOCK,))])
    writer.flush()
    assert compare_metrics(left, right).equal


def test_different_lengths() -> None:
    rows = [(step, key, float(step)) for step in range(4) for key in ("a", "b")]
    assert compared(rows, rows[:4]) == MetricsComparison(4, 1, longer="left")
    assert compared(rows[:4], rows) == MetricsComparison(4, 1, longer="right")
    assert compared(rows, rows[:5]) == MetricsComparison(5, 2, longer="left")  # killed within a step
    assert compared(rows, []) == MetricsComparison(0, None, longer="left")
    assert compared([], []) == MetricsComparison(0, None)


def test_missing_files_are_empty_ones(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    full = write(tmp_path / "full", [(1, "a", 1.0)])
    assert compare_metrics(tmp_path / "empty", full) == MetricsComparison(0, None, longer="right")


def test_a_key_or_a_step_that_only_one_has() -> None:
    rows = [(1, "a", 1.0), (1, "b", 2.0), (2, "a", 3.0), (2, "b", 4.0)]
    assert compared(rows, [rows[0], *rows[2:]]).divergence == Divergence(1, "b", 2.0, ABSENT, 0.0, "a")
    assert compared([rows[0], *rows[2:]], rows).divergence == Divergence(1, "b", ABSENT, 2.0, 0.0, "a")
    later = [*rows[:2], (3, "a", 3.0)]
    assert compared(rows, later).divergence == Divergence(2, "a", 3.0, ABSENT, None, None)
    assert compared(later, rows).divergence == Divergence(2, "a", ABSENT, 3.0, None, None)
    assert "left" not in compared(later, rows).divergence.to_json()


def test_the_order_within_a_step_says_nothing() -> None:
    rows = [(1, "a", 1.0), (1, "b", 2.0), (2, "a", 3.0)]
    assert compared(rows, [rows[1], rows[0], rows[2]]).equal


numbers = st.floats() | st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52])


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc"), numbers), max_size=12).map(
        lambda rows: sorted(rows, key=lambda row: row[0])
    ),
    st.data(),
)
def test_the_first_divergence_is_that_of_two_whole_lists(rows: list[Row], data: st.DataObject) -> None:
    """Two runs that wrote the same keys at the same steps, with some values changed."""
    changes = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    other = [
        (step, key, data.draw(numbers) if change else value)
        for (step, key, value), change in zip(rows, changes, strict=True)
    ]
    expected = next(((a, b) for a, b in zip(rows, other, strict=True) if repr(a) != repr(b)), None)
    found = compared(rows, other)
    if expected is None:
        assert found == MetricsComparison(len(rows), rows[-1][0] if rows else None)
    else:
        (step, key, left), (_, _, right) = expected
        assert repr(found.divergence[:4]) == repr((step, key, left, right))


@given(st.data())
def test_any_two_files_agree_with_a_naive_comparison(data: st.DataObject) -> None:
    """Whatever was left out, added or ended early: equal exactly when the sequences are, up to order in a step."""
    row = st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from([1.0, 2.0, math.nan]))
    left, right = (data.draw(st.lists(row, max_size=6)) for _ in range(2))
    found, mirrored = compared(left, right), compared(right, left)
    naive = list(zip_longest(_naive_groups(left), _naive_groups(right)))
    assert found.equal == all(repr(a) == repr(b) for a, b in naive)
    same = 0
    while same < len(naive) and repr(naive[same][0]) == repr(naive[same][1]):
        same += 1
    assert found.same_values >= sum(len(group[1]) for group, _ in naive[:same])
    assert found.same_values == mirrored.same_values
    assert (found.divergence is None) == (mirrored.divergence is None)
    assert {None: None, "left": "right", "right": "left"}[found.longer] == mirrored.longer
    if found.divergence is not None:
        steps = [group[0] for group in naive[same] if group is not None]
        assert found.divergence.step == min(steps)


def _naive_groups(rows: list[Row]) -> list[tuple[int, list[tuple[str, float]]]]:
    groups: list[tuple[int, list[tuple[str, float]]]] = []
    for step, key, value in rows:
        if not groups or groups[-1][0] != step or key in [known for known, _ in groups[-1][1]]:
            groups.append((step, []))
        groups[-1][1].append((key, value))
    return [(step, sorted(values, key=lambda entry: entry[0])) for step, values in groups]


def test_large_files_are_never_whole_in_memory(tmp_path: Path) -> None:
    rows = [(step, key, step / 3) for step in range(3_001) for key in ("a", "b", "c")]
    left = write(tmp_path / "left", rows, rotate_mb=0.25)
    right = write(tmp_path / "right", [*rows[:-1], (3_000, "c", 0.0)], rotate_mb=0.5)
    size = sum(file.stat().st_size for file in left.glob("metrics*.jsonl"))
    tracemalloc.start()
    found = compare_metrics(left, right)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.divergence == Divergence(3_000, "c", 1000.0, 0.0, 1.0, "c")
    assert peak < 500_000 < size


# -- runs -------------------------------------------------------------------------------------------------------------


def run(runs_dir: Path, config_yaml: str) -> RunFolder:
    folder = RunFolder.create(runs_dir, NewRun(name="a", algo="ppo", env_id="CartPole-v1", config_yaml=config_yaml))
    folder.close()
    return folder


def test_two_runs_as_a_whole(tmp_path: Path) -> None:
    left, right = run(tmp_path, "train: {lr: 0.1}"), run(tmp_path, "train: {lr: 0.1}")
    for folder in (left, right):
        write(folder.path, [(1, "a", 1.0)])
    found = compare_runs(left, right, {"host": "here"}, {"host": "there"})
    assert found.lineage == [Difference("host", "here", "there")]
    assert found.topology is None
    assert found.equal  # where it ran is no difference
    assert compare_runs(left, right, {"host": "here"}, None).lineage is None
    renamed = run(tmp_path, "{name: other, train: {lr: 0.1}}")
    write(renamed.path, [(1, "a", 1.0)])
    assert [difference.field for difference in compare_runs(left, renamed).config] == ["name"]
    assert compare_runs(left, renamed).equal  # neither is what it is called
    other = run(tmp_path, "train: {lr: 0.2}")
    write(other.path, [(1, "a", 1.0)])
    document = compare_runs(left, other).to_json()
    assert document["equal"] is False
    assert document["config"] == [{"field": "train.lr", "left": 0.1, "right": 0.2}]
    assert document["metrics"] == {
        "equal": True,
        "same_values": 1,
        "same_up_to": 1,
        "longer": None,
        "divergence": None,
    }


def test_a_run_without_its_config_is_said(tmp_path: Path) -> None:
    left, right = run(tmp_path, "{}"), run(tmp_path, "{}")
    right.config_path.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        compare_runs(left, right)
