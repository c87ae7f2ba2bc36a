"""Metrics: one valid JSON object per line, bounded files, exact after a crash and a resume."""

import gc
import json
import math
import os
import tracemalloc

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rlstudio.core.errors import LeaseLost
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.metrics.reader import damaged_lines, read_metrics
from rlstudio.experiment.metrics.records import Record, from_line, records, to_line
from rlstudio.experiment.metrics.writer import MetricsWriter
from rlstudio.storage import failpoint
from rlstudio.storage.folder import Folder
from support.examples import examples
from support.experiments import tiny
from support.metrics import first_difference
from support.sessions import resume, start

SMALL = 0.0002  # MB: a few lines per file


def some(first: int, last: int, tags=()):
    return [Record(float(n), n, "loss", n / 3, tags) for n in range(first, last)]


def lines(run_dir):
    return [line for path in sorted(run_dir.glob("metrics*.jsonl")) for line in path.read_text().splitlines()]


def test_a_line_is_exactly_the_schema(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(records(3, {"loss": 0.25}, ["clock"], clock=lambda: 12.3456))
    writer.flush()
    (line,) = lines(tmp_path)
    fields = json.loads(line)
    assert len(fields.pop("crc")) == 8
    assert fields == {"ts": 12.346, "step": 3, "key": "loss", "value": 0.25, "tags": ["clock"]}


def test_non_finite_values_are_valid_json_and_come_back(tmp_path):
    writer = MetricsWriter(tmp_path)
    values = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": -0.0, "e": 0.1 + 0.2}
    writer.write(records(1, values, ["eval"]))
    writer.flush()
    parsed = [json.loads(line, parse_constant=pytest.fail) for line in lines(tmp_path)]
    assert [(line["value"], line["tags"]) for line in parsed[:3]] == [
        (None, ["eval", "nan"]),
        (None, ["eval", "inf"]),
        (None, ["eval", "-inf"]),
    ]
    back = {record.key: record.value for record in read_metrics(tmp_path)}
    assert repr(back) == repr(values)
    assert {record.tags for record in read_metrics(tmp_path)} == {("eval",)}


@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 10**12), st.text(max_size=9), st.floats(), st.lists(st.text(max_size=3)))))
def test_whatever_is_written_comes_back(tmp_path, rows):
    MetricsWriter(tmp_path).cut_back(0)
    writer = MetricsWriter(tmp_path, rotate_mb=SMALL)
    written = [Record(1.5, step, key, value, tuple(tags)) for step, key, value, tags in rows]
    writer.write(written)
    writer.flush()
    writer.close()
    assert repr(list(read_metrics(tmp_path))) == repr(written)


def test_a_flush_is_one_write_of_whole_lines(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.flush()
    seen = []
    failpoint.restart(seen.append)
    writer.write(some(0, 50))
    assert seen == []
    writer.flush()
    failpoint.restart()
    writes = [operation for operation in seen if operation.kind == "write"]
    assert len(writes) == 1
    assert bytes(writes[0].data).endswith(b"}\n")


def test_the_buffer_is_bounded(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(some(0, 10_000))
    assert len(lines(tmp_path)) == 10_000


def test_files_rotate_and_read_as_one(tmp_path):
    writer = MetricsWriter(tmp_path, rotate_mb=SMALL)
    for n in range(40):
        writer.write(some(n, n + 1))
        writer.flush()
    files = sorted(tmp_path.glob("metrics*.jsonl"))
    assert len(files) > 5
    assert files[0].name == "metrics-0001.jsonl"
    assert max(file.stat().st_size for file in files) <= SMALL * 2**20
    assert list(read_metrics(tmp_path)) == some(0, 40)
    assert writer.offset() == sum(file.stat().st_size for file in files)


def test_more_than_9999_files_stay_in_order(tmp_path):
    for number in (9999, 10000, 2):
        (tmp_path / f"metrics-{number:04d}.jsonl").write_text(
            f'{{"ts":1,"step":{number},"key":"a","value":1,"tags":[]}}\n'
        )
    assert [record.step for record in read_metrics(tmp_path)] == [2, 9999, 10000]


def test_only_the_wanted_keys(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(records(1, {"loss": 1.0, "kl": 2.0, "return": 3.0}))
    writer.flush()
    assert [record.key for record in read_metrics(tmp_path, keys={"kl", "return"})] == ["kl", "return"]
    assert list(read_metrics(tmp_path, keys=[])) == []


@pytest.mark.parametrize(
    "torn", [b'{"ts":1,"st', b"\n", b"garbage\n", b"[1]\n", b'{"ts":1}\n', b"\xff\xfe\n", b"nul\0\n"]
)
def test_a_torn_or_foreign_line_is_passed_over(tmp_path, torn):
    writer = MetricsWriter(tmp_path)
    writer.write(some(0, 3))
    writer.flush()
    writer.close()
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(torn)
    again = MetricsWriter(tmp_path)
    again.write(some(3, 5))
    again.flush()
    assert list(read_metrics(tmp_path)) == some(0, 5)


# -- resume -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 1, 7, 20, 39, 40])
def test_cut_back_forgets_exactly_what_came_after(tmp_path, kept):
    writer = MetricsWriter(tmp_path, rotate_mb=SMALL)
    offsets = [0]
    for n in range(40):
        writer.write(some(n, n + 1))
        offsets.append(writer.offset())
    writer.write(some(90, 95))  # never flushed
    again = MetricsWriter(tmp_path, rotate_mb=SMALL)
    assert again.cut_back(offsets[kept]) == 0
    assert list(read_metrics(tmp_path)) == some(0, kept)
    again.write(some(kept, 40))
    again.flush()
    assert list(read_metrics(tmp_path)) == some(0, 40)


def test_a_stale_writer_goes_on_in_a_file_that_is_gone(tmp_path):
    stale = MetricsWriter(tmp_path)
    stale.write(some(0, 3))
    offset = stale.offset()
    stale.write(some(3, 4))
    stale.flush()
    MetricsWriter(tmp_path).cut_back(offset)
    stale.write(some(7, 9))
    stale.flush()
    assert list(read_metrics(tmp_path)) == some(0, 3)


def test_with_a_lease_it_is_fenced(tmp_path):
    lease = FileLease(tmp_path)
    writer = MetricsWriter(tmp_path, lease=lease)
    writer.write(some(0, 1))
    writer.flush()
    lease.release()
    writer.write(some(1, 2))
    with pytest.raises(LeaseLost):
        writer.flush()
    with pytest.raises(LeaseLost):
        writer.cut_back(0)
    assert list(read_metrics(tmp_path)) == some(0, 1)


def test_missing_metrics_are_counted_not_fatal(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(some(0, 3))
    offset = writer.offset()
    assert MetricsWriter(tmp_path).cut_back(offset + 10) == 10
    assert list(read_metrics(tmp_path)) == some(0, 3)


def test_cut_back_survives_a_kill_at_every_step(tmp_path, monkeypatch):
    """Each of its steps leaves what came before the offset in place, so doing it again mends everything."""
    from rlstudio.core.errors import StorageError

    point, done = 0, False
    while not done:
        point += 1
        run_dir = tmp_path / str(point)
        run_dir.mkdir()
        writer = MetricsWriter(run_dir, rotate_mb=SMALL)
        for n in range(30):
            writer.write(some(n, n + 1))
            writer.flush()
            if n == 10:
                offset = writer.offset()
        failpoint.restart()
        monkeypatch.setenv(failpoint.VARIABLE, f"{point}:eio")
        try:
            MetricsWriter(run_dir).cut_back(offset)
            done = True
        except StorageError:
            assert list(read_metrics(run_dir))[:11] == some(0, 11)
        monkeypatch.delenv(failpoint.VARIABLE)
        MetricsWriter(run_dir).cut_back(offset)
        assert list(read_metrics(run_dir)) == some(0, 11)
    assert point > 5


# -- following and comparing ------------------------------------------------------------------------------------------


def test_follow_sees_each_record_once_through_rotation_and_resume(tmp_path):
    writer = MetricsWriter(tmp_path, rotate_mb=SMALL)

    def add(first, last):
        for n in range(first, last):
            writer.write(some(n, n + 1))
            writer.flush()

    add(0, 3)
    offset = writer.offset()

    def half_a_line():
        with (tmp_path / "metrics.jsonl").open("ab") as file:
            file.write(b'{"ts":7')

    def the_rest_of_it():
        with (tmp_path / "metrics.jsonl").open("ab") as file:
            file.write(b'.0,"step":7,"key":"loss","value":%s,"tags":[]}\n' % repr(7 / 3).encode())

    happenings = [
        lambda: add(3, 5),
        lambda: None,
        lambda: add(5, 7),  # rotates
        half_a_line,
        the_rest_of_it,
        lambda: writer.cut_back(offset),
        lambda: add(3, 6),  # a resumed run writes the same again
        lambda: add(6, 20),
    ]
    turns = iter(happenings)

    def wait():
        happening = next(turns, None)
        if happening is not None:
            happening()
        return happening is not None

    assert list(read_metrics(tmp_path, follow=True, wait=wait)) == some(0, 20)


def test_follow_holds_one_descriptor(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(some(0, 3))
    writer.flush()
    gc.collect()  # what earlier tests left to the collector is not ours to count
    before = len(os.listdir("/proc/self/fd"))
    following = read_metrics(tmp_path, follow=True)
    next(following)
    following.close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_comparison_ignores_time_and_clock_values(tmp_path):
    runs = []
    for number, value in enumerate([0.1, 0.1, 0.1000001]):
        run_dir = tmp_path / str(number)
        run_dir.mkdir()
        writer = MetricsWriter(run_dir, rotate_mb=SMALL)
        for step in range(9):
            writer.write(records(step, {"loss": value, "bad": math.nan}, clock=lambda n=number: 5.0 + n))
            writer.write(records(step, {"steps_per_second": number * 7.0}, ["clock"]))
            writer.flush()
        runs.append(run_dir)
    assert first_difference(runs[0], runs[1]) is None
    assert first_difference(runs[0], runs[2]).startswith("record 0:")
    longer = MetricsWriter(runs[1])
    longer.write(records(9, {"loss": 1.0}))
    longer.flush()
    assert first_difference(runs[0], runs[1]).startswith("record 18: None against Record(")


def test_row_11_every_flipped_bit_of_a_record_is_noticed():
    record = Record(12.5, 3, "loss", 0.25, ("clock",))
    line = to_line(record)
    assert from_line(line) == record
    for bit in range(8 * len(line)):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        assert from_line(bytes(flipped)) is None, bytes(flipped)


def test_row_11_records_of_before_are_read_as_they_are():
    old = b'{"ts":12.5,"step":3,"key":"loss","value":0.25,"tags":[]}\n'
    assert from_line(old) == Record(12.5, 3, "loss", 0.25)


def test_row_11_a_resumed_run_says_that_its_metrics_are_damaged(tmp_path):
    session = start(tiny(ckpt={"every_epochs": 1}), tmp_path / "runs")
    with session:
        for tick in session:
            if tick.epoch == 2:
                break
    file = session.folder.path / "metrics.jsonl"
    data = bytearray(file.read_bytes())
    data[data.index(b"train/")] ^= 1
    file.write_bytes(data)
    with resume(session.folder):
        pass
    assert [event["lines"] for event in session.folder.events() if event["kind"] == "metrics_damaged"] == [1]


@pytest.mark.parametrize("whole", [True, False])
def test_b5_a_line_without_end_takes_no_memory(tmp_path, whole):
    good = to_line(Record(1.0, 3, "loss", 0.5))
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(good)
    with file.open("r+b") as large:
        large.truncate(30 << 20)  # sparse: the rest of the file is one line of zeros
        large.seek(0, 2)
        large.write(b"\n" + good if whole else b"")
    tracemalloc.start()
    try:
        values = [record.value for record in read_metrics(tmp_path)]
        count = damaged_lines(Folder(tmp_path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (values, count) == ([0.5, 0.5] if whole else [0.5], 1)
    assert peak < 10 << 20
