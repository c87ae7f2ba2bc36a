"""Sinks beside the run's own metrics: the same records, and the same cut when the run resumes."""

import csv
import math
import os
import stat
import sys
from pathlib import Path

import pytest

from rlstudio.core.errors import StorageError, UserError
from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.records import Record
from rlstudio.experiment.metrics.sinks import CsvSink, TensorBoardSink, tensorboard_sink
from rlstudio.experiment.metrics.writer import MetricsWriter
from support.measured_runs import measured_run


def some(first, last):
    return [Record(float(n), n, "loss", n / 3, ("clock", "eval")) for n in range(first, last)]


def tensorboard(run_dir: Path) -> TensorBoardSink:
    return tensorboard_sink(SinkConfig(kind="tensorboard"), run_dir)


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "artifacts").mkdir()
    return tmp_path


def rows(run_dir):
    with (run_dir / "artifacts/metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def scalars(run_dir):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run_dir / "artifacts/tensorboard"))
    events.Reload()
    return {key: [(e.step, e.value) for e in events.Scalars(key)] for key in events.Tags()["scalars"]}


@pytest.mark.parametrize("make", [MetricsWriter, CsvSink, tensorboard])
def test_the_contract(run_dir, make):
    """Write, flush, remember where it stood, come back there, go on; twice closed is closed."""
    sink = make(run_dir)
    sink.write(some(0, 4))
    sink.flush()
    sink.flush()
    offset = sink.offset()
    assert isinstance(offset, int)
    sink.write(some(4, 6))
    sink.flush()
    sink.close()
    again = make(run_dir)
    assert again.cut_back(offset) == 0
    assert again.offset() == offset
    again.write(some(4, 9))
    again.flush()
    again.close()


def test_csv_is_one_row_per_value(run_dir):
    sink = CsvSink(run_dir)
    sink.write([Record(1.5, 2, 'a,"b"\nc', math.nan), *some(3, 4)])
    sink.flush()
    assert rows(run_dir) == [
        {"ts": "1.5", "step": "2", "key": 'a,"b"\nc', "value": "nan", "tags": ""},
        {"ts": "3.0", "step": "3", "key": "loss", "value": "1.0", "tags": "clock eval"},
    ]


def test_csv_is_cut_back_and_goes_on(run_dir):
    sink = CsvSink(run_dir)
    empty = sink.offset()
    sink.write(some(0, 3))
    offset = sink.offset()
    sink.write(some(3, 9))
    sink.flush()
    resumed = CsvSink(run_dir)
    resumed.cut_back(offset)
    resumed.write(some(3, 5))
    resumed.flush()
    assert [int(row["step"]) for row in rows(run_dir)] == [0, 1, 2, 3, 4]
    for position in (empty, 0):
        fresh = CsvSink(run_dir)
        fresh.cut_back(position)
        fresh.write(some(0, 1))
        fresh.flush()
        assert [int(row["step"]) for row in rows(run_dir)] == [0]
    assert fresh.cut_back(10**6) > 0


def test_tensorboard_shows_the_resumed_run_without_a_double(run_dir):
    sink = tensorboard(run_dir)
    sink.write(some(0, 3))
    offset = sink.offset()
    sink.write(some(3, 6))
    sink.close()
    first = next((run_dir / "artifacts/tensorboard").iterdir())
    first.rename(first.with_name("events.out.tfevents.0000000001.first"))  # names are ordered by the second
    resumed = tensorboard(run_dir)
    resumed.cut_back(offset)
    resumed.write(some(3, 8))
    resumed.close()
    assert [step for step, _ in scalars(run_dir)["loss"]] == list(range(8))
    assert scalars(run_dir)["loss"][4][1] == pytest.approx(4 / 3)


def test_a_missing_tensorboard_is_one_line(run_dir, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=r'not installed; run `pip install "tensorboard>=2.18,<3"`$') as caught:
        tensorboard(run_dir)
    assert "\n" not in str(caught.value)


def test_event_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        (tmp_path / "artifacts").mkdir(mode=0o700)
        sink = tensorboard(tmp_path)
        sink.close()
    finally:
        os.umask(before)
    files = list((tmp_path / "artifacts" / "tensorboard").iterdir())
    assert files
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


def test_a_link_in_place_of_the_event_files_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "tensorboard").symlink_to(outside)
    with pytest.raises(StorageError, match="is a link"):
        tensorboard(tmp_path)
    assert not list(outside.iterdir())


def test_tensorboard_calls_a_run_by_its_name_and_seed(tmp_path: Path) -> None:
    """Newcomer S4: it was called `<id>/artifacts/tensorboard`."""
    new = RunFolder(tmp_path / measured_run(tmp_path, "lr1e-3", 7, {}))
    tensorboard(new.path).close()
    assert [folder.name for folder in (new.path / "artifacts/tensorboard").iterdir()] == ["lr1e-3-seed7"]
    begun = RunFolder(tmp_path / measured_run(tmp_path, "lr1e-3", 8, {}))  # with files of before names were in it
    (begun.path / "artifacts/tensorboard").mkdir()
    (begun.path / "artifacts/tensorboard/events.out.tfevents.1").write_bytes(b"")
    tensorboard(begun.path).close()
    assert all(path.is_file() for path in (begun.path / "artifacts/tensorboard").iterdir())
