"""The index of a run's metrics: it has what the files have, whatever happened to them since it last looked."""

import math
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.experiment.metrics.indexed.index import MetricIndex, read_snapshot
from rlstudio.experiment.metrics.indexed.shelf import SUFFIX, MetricShelf
from rlstudio.experiment.metrics.indexed.snapshot import Range
from rlstudio.experiment.metrics.reader import damaged_lines, read_metrics
from rlstudio.experiment.metrics.records import CURRENT, Record, to_line
from rlstudio.experiment.metrics.writer import MetricsWriter
from rlstudio.storage.folder import Folder
from support.examples import examples

SMALL = 0.002  # MB: some twenty lines per file
NUMBERS = st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 1e308])


def some(first, last, names=("loss", "kl"), ts=0.0):
    return [Record(ts + n, n, name, n / 3) for n in range(first, last) for name in names]


def write(run_dir, records, **settings):
    writer = MetricsWriter(run_dir, **settings)
    for first in range(0, len(records), 20):
        writer.write(records[first : first + 20])
        writer.flush()
    offset = writer.offset()
    writer.close()
    return offset


def in_files(run_dir):
    return [(record.ts, record.step, record.key, repr(record.value)) for record in read_metrics(run_dir)]


def in_index(snapshot):
    names = list(snapshot.codes)
    return [(float(ts), int(step), names[code], repr(float(value))) for code, step, value, ts in snapshot.rows.tolist()]


@examples(60)
@given(
    st.lists(st.tuples(st.integers(-5, 2**70), st.text(max_size=6), NUMBERS, st.lists(st.text(max_size=5)))),
    st.data(),
)
def test_it_reads_what_a_line_by_line_reader_reads_also_of_damaged_files(rows, data):
    whole = bytearray(b"".join(to_line(Record(1.5, *row[:3], tuple(row[3]))) for row in rows))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=3)) if whole else ():
        whole[place] = data.draw(st.sampled_from(b'\n\r"{}\\09a,\x00\xff'))
    with TemporaryDirectory() as folder:
        (Path(folder) / CURRENT).write_bytes(whole)
        snapshot = read_snapshot(Path(folder))
        fits = [row for row in in_files(Path(folder)) if abs(row[1]) < 2**63]
        assert in_index(snapshot) == fits
        lost = len(in_files(Path(folder))) - len(fits)
        assert snapshot.damaged == damaged_lines(Folder(Path(folder))) + lost - (
            not whole.endswith(b"\n") and len(whole) > 0
        )


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 40)),
    st.tuples(st.just("cut back"), st.floats(0, 1)),
    st.tuples(st.just("look"), st.just(0)),
    st.tuples(st.just("tear"), st.integers(1, 30)),
)


@examples(40)
@given(st.lists(STEPS, max_size=12))
def test_looked_at_again_and_again_it_is_what_it_would_be_if_it_were_built_now(steps):
    with TemporaryDirectory() as name:
        folder, index, clock = Path(name), MetricIndex(Path(name)), 0.0
        offsets = [0]
        for kind, amount in steps:
            clock += 1000
            if kind == "write":
                offsets.append(write(folder, some(len(offsets), len(offsets) + amount, ts=clock), rotate_mb=SMALL))
            elif kind == "cut back":
                offsets = offsets[: 1 + int(amount * (len(offsets) - 1))]
                MetricsWriter(folder).cut_back(offsets[-1])
            elif kind == "tear":
                with (folder / CURRENT).open("ab") as file:
                    file.write(b'{"ts":1.0,"step":5,"key":"torn"'[:amount])
            else:
                assert in_index(index.snapshot()) == in_files(folder)
        assert in_index(index.snapshot()) == in_files(folder) == in_index(MetricIndex(folder).snapshot())


def test_a_file_that_was_cut_back_and_grew_again_is_read_anew_though_it_is_the_same_file(tmp_path):
    write(tmp_path, some(0, 10))
    index = MetricIndex(tmp_path)
    index.snapshot()
    (tmp_path / CURRENT).write_bytes(b"")  # in place: the same inode
    write(tmp_path, some(0, 20, ts=99.0))
    assert in_index(index.snapshot()) == in_files(tmp_path)
    assert len(index.snapshot().rows) == 40


def test_names_have_kind_last_value_and_count(tmp_path):
    clocks = [Record(1.0, 3, "time/steps_per_s", 7.0, ("x,y", "clock"))]
    write(tmp_path, [*some(0, 3), *clocks, Record(2.0, 9, "loss", math.nan)])
    snapshot = read_snapshot(tmp_path)
    found = {each.name: (each.kind, repr(each.last), each.count) for each in snapshot.names()}
    assert found == {
        "loss": ("value", "nan", 4),
        "kl": ("value", repr(2 / 3), 3),
        "time/steps_per_s": ("clock", "7.0", 1),
    }
    assert snapshot.last_step == 9


def test_a_run_that_has_measured_nothing_has_no_names_and_no_curves(tmp_path):
    snapshot = read_snapshot(tmp_path)
    assert snapshot.names() == []
    assert snapshot.series(["loss"]).points == {}
    assert (snapshot.last_step, snapshot.damaged) == (0, 0)


def test_a_range_of_steps_or_of_times(tmp_path):
    write(tmp_path, some(0, 100, ts=1000.0))
    snapshot = read_snapshot(tmp_path)
    loss = snapshot.series(["loss", "nothing"], within=Range(10, 12)).points["loss"]
    assert loss.steps.tolist() == [10, 11, 12]
    assert loss.clock.tolist() == [1010, 1011, 1012]
    assert loss.values.tolist() == [10 / 3, 11 / 3, 4.0]
    later = snapshot.series(["loss"], within=Range(1098.5, None, "time")).points["loss"]
    assert later.steps.tolist() == [99]
    assert snapshot.series(["loss"], within=Range(500, None)).points["loss"].steps.tolist() == []


def test_a_cursor_gives_what_came_since(tmp_path):
    write(tmp_path, some(0, 5))
    index = MetricIndex(tmp_path)
    first = index.snapshot().series(["loss"])
    assert first.complete
    nothing = index.snapshot().since(first.next, ["loss"])
    assert (nothing.points, nothing.complete, nothing.next) == ({}, False, first.next)
    write(tmp_path, some(5, 7))
    new = MetricIndex(tmp_path).snapshot().since(first.next, ["loss"])  # also of another process
    assert (new.points["loss"].steps.tolist(), new.complete) == ([5, 6], False)
    assert new.next != first.next


def test_a_cursor_from_before_a_cut_gives_the_whole_curve(tmp_path):
    offset = write(tmp_path, some(0, 5))
    write(tmp_path, some(5, 9))
    cursor = read_snapshot(tmp_path).cursor
    MetricsWriter(tmp_path).cut_back(offset)
    again = read_snapshot(tmp_path).since(cursor, ["loss"])
    assert (again.points["loss"].steps.tolist(), again.complete) == (list(range(5)), True)
    write(tmp_path, some(5, 20, ts=50.0))  # the same steps, later
    again = read_snapshot(tmp_path).since(cursor, ["loss"])
    assert (again.points["loss"].steps.tolist(), again.complete) == (list(range(20)), True)


@pytest.mark.parametrize(
    "cursor", ["", "x", "3", "-1.00000000", "99999999999999999999.0", "²." + 8 * "0", "10." + 8 * "0"]
)
def test_a_cursor_that_is_none_gives_the_whole_curve(tmp_path, cursor):
    write(tmp_path, some(0, 5))
    assert read_snapshot(tmp_path).since(cursor, ["loss"]).complete


def test_more_new_points_than_asked_for_are_the_whole_curve_reduced(tmp_path):
    write(tmp_path, some(0, 5))
    index = MetricIndex(tmp_path)
    cursor = index.snapshot().cursor
    write(tmp_path, some(5, 500))
    answer = index.snapshot().since(cursor, ["loss"], points=50)
    assert answer.complete
    assert 20 < len(answer.points["loss"].steps) <= 50


def test_a_snapshot_stays_what_it_was(tmp_path):
    write(tmp_path, some(0, 5))
    index = MetricIndex(tmp_path)
    before = index.snapshot()
    kept = in_index(before)
    for first in range(5, 200, 15):
        write(tmp_path, some(first, first + 15))
        index.snapshot()
    assert in_index(before) == kept


@pytest.fixture
def long_run(tmp_path, monkeypatch):
    monkeypatch.setattr("rlstudio.experiment.metrics.indexed.shelf.ROWS_WORTH_KEEPING", 100)
    (tmp_path / "run").mkdir()
    write(tmp_path / "run", some(0, 300), rotate_mb=SMALL)
    return tmp_path / "run"


def built(monkeypatch):
    """How many lines were read from runs since now."""
    lines = []
    module = "rlstudio.experiment.metrics.indexed.index"
    from rlstudio.experiment.metrics.indexed.parsing import parse_lines

    def counted(data, names):
        lines.append(data.count(b"\n"))
        return parse_lines(data, names)

    monkeypatch.setattr(f"{module}.parse_lines", counted)
    return lines


def written(folder):
    """What changes when a file is written, and not when it is read."""
    return {path.name: (path.stat().st_ino, path.stat().st_ctime_ns, path.read_bytes()) for path in folder.iterdir()}


def test_the_index_of_a_long_run_is_kept_outside_of_the_run(long_run, tmp_path, monkeypatch):
    before = written(long_run)
    MetricShelf(tmp_path / "cache").snapshot(long_run)
    assert written(long_run) == before
    write(long_run, some(300, 310), rotate_mb=SMALL)
    lines = built(monkeypatch)
    snapshot = MetricShelf(tmp_path / "cache").snapshot(long_run)
    assert sum(lines) == 20
    assert in_index(snapshot) == in_files(long_run)
    assert (tmp_path / "cache" / f"run{SUFFIX}").stat().st_mode & 0o777 == 0o600


def test_a_kept_index_that_is_damaged_or_does_not_fit_is_made_again(long_run, tmp_path, monkeypatch):
    MetricShelf(tmp_path / "cache").snapshot(long_run)
    kept = tmp_path / "cache" / f"run{SUFFIX}"
    whole = kept.read_bytes()
    lines = built(monkeypatch)
    for damaged in (whole[:-5], whole[:50] + b"?" + whole[51:], b"", b"{}"):
        kept.write_bytes(damaged)
        assert in_index(MetricShelf(tmp_path / "cache").snapshot(long_run)) == in_files(long_run)
    assert sum(lines) == 4 * 600
    assert kept.read_bytes() == whole
    changed = (long_run / "metrics-0001.jsonl").read_bytes().replace(b"loss", b"lass", 1)  # one line in the middle
    (long_run / "metrics-0001.jsonl").write_bytes(changed)
    snapshot = MetricShelf(tmp_path / "cache").snapshot(long_run)
    assert snapshot.damaged == 1
    assert in_index(snapshot) == in_files(long_run)


def test_a_short_run_and_a_cache_that_cannot_be_written_are_answered_all_the_same(long_run, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert len(MetricShelf(tmp_path / "cache").snapshot(long_run).rows) == 600
    assert len(MetricShelf().snapshot(long_run).rows) == 600
    (tmp_path / "short").mkdir()
    write(tmp_path / "short", some(0, 10))
    MetricShelf(tmp_path / "other").snapshot(tmp_path / "short")
    assert not (tmp_path / "other").exists()


def test_memory_and_folder_are_bounded(long_run, tmp_path, monkeypatch):
    module = "rlstudio.experiment.metrics.indexed.shelf"
    monkeypatch.setattr(f"{module}.ROWS_IN_MEMORY", 1000)
    monkeypatch.setattr(f"{module}.BYTES_KEPT", 50_000)
    shelf = MetricShelf(tmp_path / "cache")
    for number in range(4):
        shutil.copytree(long_run, tmp_path / f"run{number}")
        shelf.snapshot(tmp_path / f"run{number}")
    assert [path.name for path in shelf._shelved] == ["run3"]
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {f"run2{SUFFIX}", f"run3{SUFFIX}"}
