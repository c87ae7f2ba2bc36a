"""The metrics of runs as tables: what a row is, and that every value comes back."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path

import pytest

from rlstudio.core.errors import UserError
from rlstudio.core.host.installation import remedy
from rlstudio.experiment.metrics.records import Record, to_line
from rlstudio.experiment.metrics.tables import MetricTable, NamedRun, write_csv, write_parquet

FIRST = [
    Record(1.0, 100, "rollout/return_mean", 1 / 3),
    Record(1.5, 100, "time/steps_per_second", 9e5, ("clock",)),
    Record(2.0, 200, "rollout/return_mean", math.nan),
    Record(2.5, 200, "eval/return_mean", 7.0),
    Record(3.0, 200, "eval/return_mean", 8.0, ("final",)),
]
SECOND = [Record(1.0, 50, "train/kl", 1e-300)]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[NamedRun, NamedRun]:
    named = []
    for name, seed, records in (("first", 0, FIRST), ("second, other", 1, SECOND)):
        folder = tmp_path / f"run-{seed}"
        folder.mkdir()
        (folder / "metrics.jsonl").write_bytes(b"".join(map(to_line, records)))
        named.append(NamedRun(folder, folder.name, name, seed))
    return named[0], named[1]


def rows_of(table: MetricTable) -> list[dict[str, str]]:
    text = io.StringIO()
    write_csv(table, text)
    return list(csv.DictReader(io.StringIO(text.getvalue())))


def test_wide_has_a_row_per_step_and_a_column_per_metric(runs: tuple[NamedRun, NamedRun]) -> None:
    """Newcomer S4: CSV was long format only."""
    rows = rows_of(MetricTable(runs[:1], wide=True))
    assert list(rows[0]) == ["step", "rollout/return_mean", "time/steps_per_second", "eval/return_mean"]
    assert [list(row.values()) for row in rows] == [["100", repr(1 / 3), "900000.0", ""], ["200", "nan", "", "8.0"]]


def test_long_has_a_row_per_value_with_all_its_digits(runs: tuple[NamedRun, NamedRun]) -> None:
    rows = rows_of(MetricTable(runs[:1]))
    assert [(row["step"], row["key"], row["tags"]) for row in rows] == [
        (str(record.step), record.key, " ".join(record.tags)) for record in FIRST
    ]
    assert [repr(float(row["value"])) for row in rows] == [repr(record.value) for record in FIRST]


@pytest.mark.parametrize("wide", [True, False])
def test_several_runs_are_told_apart_by_id_name_and_seed(runs: tuple[NamedRun, NamedRun], wide: bool) -> None:
    rows = rows_of(MetricTable(runs, wide=wide))
    assert list(rows[0])[:3] == ["id", "name", "seed"]
    assert {(row["id"], row["name"], row["seed"]) for row in rows} == {
        ("run-0", "first", "0"),
        ("run-1", "second, other", "1"),
    }
    assert len(rows) == (3 if wide else 6)


def test_only_the_metrics_that_are_asked_for(runs: tuple[NamedRun, NamedRun]) -> None:
    rows = rows_of(MetricTable(runs, wide=True, keys={"eval/return_mean"}))
    assert [list(row.values()) for row in rows] == [["run-0", "first", "0", "200", "8.0"]]


@pytest.mark.parametrize("wide", [True, False])
def test_parquet_has_the_same_table(
    runs: tuple[NamedRun, NamedRun], wide: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rlstudio.experiment.metrics.tables.CHUNK_ROWS", 2)
    table = MetricTable(runs, wide=wide)
    write_parquet(table, tmp_path / "metrics.parquet")
    back = parquet.read_table(tmp_path / "metrics.parquet")
    assert {field.name: str(field.type).replace("double", "float64") for field in back.schema} == table.columns
    columns = back.to_pydict()
    assert repr([list(row) for row in zip(*columns.values(), strict=True)]) == repr(list(table.rows()))


def test_without_pyarrow_it_says_what_to_install(
    runs: tuple[NamedRun, NamedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError) as refused:
        write_parquet(MetricTable(runs), tmp_path / "metrics.parquet")
    assert str(refused.value) == f"metrics: Parquet needs pyarrow; {remedy('parquet')}"
    assert not list(tmp_path.glob("*.parquet"))
