"""Learning curves as pictures and as terminal text: what is drawn, what is refused, what never breaks."""

import errno
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rlstudio.cli.screen.chart import ChartLine, Row, chart
from rlstudio.core.errors import StorageError, UnknownName, UserError
from rlstudio.experiment.analysis.curves import INTERVAL, ROUGHLY, Curve, band, choose_metric, plot_runs
from rlstudio.ops.statistics import iqm

NAN = float("nan")
BLANK = chr(0x2800)


def generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(0))


def seeds(count: int, points: int = 12) -> list[tuple[np.ndarray, np.ndarray]]:
    noise = generator().normal(size=(count, points))
    return [(np.arange(points) * 100.0, np.arange(points) + noise[i]) for i in range(count)]


# -- pictures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_curves_give_the_same_file(tmp_path: Path, suffix: str) -> None:
    curves = [Curve("ppo", seeds(5)), Curve("dqn $5 %s", seeds(1))]
    first, second = (plot_runs(curves, tmp_path / f"{name}{suffix}") for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"first{suffix}", f"second{suffix}"]  # no partial file left


@pytest.mark.parametrize(
    ("dark", "ground", "line"),
    [(False, (255, 255, 255), (0x00, 0x72, 0xB2)), (True, (0x16, 0x1A, 0x20), (0x7B, 0xA2, 0xFF))],
)
def test_png_is_a_picture_with_colour(dark: bool, ground: tuple, line: tuple, tmp_path: Path) -> None:
    path = plot_runs([Curve("ppo", seeds(3))], tmp_path / "new" / "folder" / "curve.png", dark=dark)
    with Image.open(path) as image:
        assert image.size == (1200, 675)
        pixels = np.asarray(image.convert("RGB"))
    assert (pixels == line).all(axis=-1).sum() > 500
    assert (pixels == ground).all(axis=-1).mean() > 0.7


def test_labels_are_written(tmp_path: Path) -> None:
    text = plot_runs(
        [Curve("alpha", seeds(5)), Curve("beta", seeds(1))], tmp_path / "c.svg", metric="eval/x", title="Title"
    ).read_text()
    for words in ("alpha (n=5)", "beta (n=1)", "eval/x", "Title", "environment steps", INTERVAL):
        assert f"<!-- {words}" in text or words in text


def test_what_a_line_of_very_many_points_is_drawn_as_is_written(tmp_path: Path) -> None:
    text = plot_runs([Curve("long", [(np.arange(4000), np.arange(4000) % 7)])], tmp_path / "c.svg").read_text()
    assert ROUGHLY in text
    assert INTERVAL not in text


def test_more_lines_than_colours(tmp_path: Path) -> None:
    picture = plot_runs([Curve(f"run {i}", seeds(1)) for i in range(17)], tmp_path / "many.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("runs", [[], [([], [])], [([1, 2], [NAN, NAN])]])
def test_nothing_to_plot_is_said_and_nothing_written(tmp_path: Path, runs: list) -> None:
    with pytest.raises(UserError, match="no finite value of eval/return_mean"):
        plot_runs([Curve("empty", runs)], tmp_path / "c.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["curve.gif", "curve"])
def test_unknown_picture_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"must end with \.png or \.svg or \.pdf"):
        plot_runs([Curve("a", seeds(1))], tmp_path / name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plots.png").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        plot_runs([Curve("a", seeds(1))], tmp_path / "plots.png")


def test_a_failed_write_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "c.png"
    target.write_bytes(b"old")

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", broken)
    with pytest.raises(StorageError, match=r"c\.png: the disk is full"):
        plot_runs([Curve("a", seeds(1))], target)
    assert [p.name for p in tmp_path.iterdir()] == ["c.png"]
    assert target.read_bytes() == b"old"


def test_importing_loads_neither_matplotlib_nor_torch() -> None:
    code = "import sys, rlstudio.experiment.analysis.curves; sys.exit(bool({'matplotlib', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- band -----------------------------------------------------------------------------------------------------------


def test_band_of_equal_steps_is_the_iqm_at_each_step() -> None:
    runs = seeds(6)
    found = band(runs, generator())
    assert found is not None
    np.testing.assert_array_equal(found.xs, runs[0][0])
    np.testing.assert_allclose(found.centre, iqm(np.stack([ys for _, ys in runs], axis=-1)))
    assert (found.low <= found.centre).all()
    assert (found.centre <= found.high).all()


def test_band_of_equal_runs_has_no_width() -> None:
    found = band([([0, 1, 2], [5, 6, 7])] * 3, generator())
    assert found is not None
    np.testing.assert_allclose([found.low, found.centre, found.high], [[5, 6, 7]] * 3)


def test_band_interpolates_and_ends_where_the_shortest_run_ends() -> None:
    found = band([([0, 10, 20], [0, 10, 20]), ([0, 5, 10], [0, 5, 10])], generator())
    assert found is not None
    np.testing.assert_array_equal(found.xs, [0, 5, 10])
    np.testing.assert_allclose(found.centre, [0, 5, 10])


def test_band_skips_what_is_not_finite_and_takes_the_last_of_a_repeated_step() -> None:
    found = band([([0, 1, 2], [0, NAN, 4]), ([0, 1, 1, 2], [0, 99, 2, 4])], generator())
    assert found is not None
    np.testing.assert_allclose(found.centre, [0, 2, 4])


def test_runs_that_never_overlap_have_no_band_but_are_drawn(tmp_path: Path) -> None:
    runs = [([0, 1], [0, 1]), ([5, 6], [0, 1])]
    assert band(runs, generator()) is None
    assert plot_runs([Curve("apart", runs)], tmp_path / "c.png").exists()


@pytest.mark.parametrize(("end", "ticks"), [(3.0, {"0.5", "2"}), (3000.0, {"500", "2k"}), (4e6, {"500k", "1M"})])
def test_ticks_are_short_and_never_milli(tmp_path: Path, end: float, ticks: set[str]) -> None:
    drawn = plot_runs([Curve("a", [([0.0, end], [0.0, 1.0])])], tmp_path / "c.svg").read_text()
    texts = set(re.findall(r"<!-- (.*?) -->", drawn))
    assert ticks <= texts
    assert not any(text.endswith("m") for text in texts)


# -- metric choice --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("available", "wanted", "chosen"),
    [
        (["loss", "rollout/return_mean", "eval/return_mean"], None, "eval/return_mean"),
        (["loss", "rollout/return_mean"], None, "rollout/return_mean"),
        (["loss", "x/return"], None, "x/return"),
        (["loss"], None, "loss"),
        (["loss", "eval/return_mean"], "loss", "loss"),
    ],
)
def test_metric_choice(available: list[str], wanted: str | None, chosen: str) -> None:
    assert choose_metric(available, wanted) == chosen


def test_unknown_metric_suggests() -> None:
    with pytest.raises(UnknownName, match=r"did you mean eval/return_mean\?"):
        choose_metric(["eval/return_mean", "loss"], "eval/return_meen")
    with pytest.raises(UnknownName, match="there are: loss"):
        choose_metric(["loss"], "zzz")
    with pytest.raises(UserError, match="no metric has been written: no run of these"):
        choose_metric([])


# -- terminal -------------------------------------------------------------------------------------------------------


def text_of(rows: list[Row]) -> list[str]:
    return ["".join(cell.text for cell in row) for row in rows]


def drawn(xs: Sequence[float], ys: Sequence[float], **options: Any) -> list[str]:
    return text_of(chart([ChartLine(xs, ys)], **options))


def plot_area(lines: list[str]) -> list[str]:
    return ["".join(c for c in line if BLANK <= c <= chr(0x28FF)) for line in lines if "│" in line or "┤" in line]


def test_chart_of_a_rising_line() -> None:
    lines = drawn([0, 50_000], [0.0, 500.0], width=30, height=4, title="return", x_label="steps")
    area = plot_area(lines)
    assert lines[0] == "return"
    assert [line.split()[0] for line in lines if "┤" in line] == ["500", "188", "0"]
    assert lines[-1].split() == ["0", "steps", "50k"]
    assert area[0].startswith(BLANK)
    assert area[0][-1] != BLANK
    assert area[-1][0] != BLANK
    assert area[-1].endswith(BLANK)
    assert all(set(row) != {BLANK} for row in area)


def test_chart_gap_at_nan() -> None:
    area = plot_area(drawn(range(9), [1, 1, 1, NAN, NAN, NAN, 1, 1, 1], width=40, height=3))
    columns = [i for i, column in enumerate(zip(*area, strict=True)) if set(column) != {BLANK}]
    gaps = [b - a for a, b in pairwise(columns) if b - a > 1]
    assert len(gaps) == 1


@pytest.mark.parametrize("ys", [[], [NAN], [float("inf"), -float("inf")]])
def test_chart_without_data(ys: list[float]) -> None:
    assert drawn(range(len(ys)), ys, title="t") == ["t", "no data yet"]


def test_chart_of_a_constant_runs_through_the_middle() -> None:
    area = plot_area(drawn([1, 2, 3], [7.0, 7.0, 7.0], height=5))
    assert [set(row) == {BLANK} for row in area] == [True, True, False, True, True]


def test_chart_of_one_point_has_one_dot() -> None:
    area = "".join(plot_area(drawn([3], [4.0])))
    assert sum((ord(c) - 0x2800).bit_count() for c in area) == 1


@given(
    st.lists(st.tuples(st.floats(), st.floats()), max_size=30),
    st.integers(2, 90),
    st.integers(1, 12),
    st.sampled_from(["", "a title that is rather long for the width"]),
)
def test_chart_takes_anything_and_keeps_its_width(points: list, width: int, height: int, title: str) -> None:
    lines = drawn([x for x, _ in points], [y for _, y in points], width=width, height=height, title=title)
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= height + 3


def test_curves_of_several_groups_share_one_chart_and_its_axes() -> None:
    """Newcomer S2: in the terminal two curves came as two charts with different axes."""
    low, high = ChartLine([0, 100], [20.0, 48.0], "A", "cyan"), ChartLine([0, 200], [157.0, 447.0], "B", "yellow")
    rows = chart([low, high], width=60, height=10)
    lines = text_of(rows)
    assert [line.split()[0] for line in lines if "┤" in line] == ["447", "212", "20"]
    assert lines[-1].split() == ["0", "200"]
    assert sum("└" in line for line in lines) == 1
    cells = [(symbol, cell.style) for row in rows for cell in row for symbol in cell.text]
    assert {style for symbol, style in cells if symbol == "A"} == {"cyan"}
    assert {style for symbol, style in cells if symbol == "B"} == {"yellow"}
    area = [line.replace("┤", "│").partition("│")[2] for line in lines]
    ends = {letter: max(line.rfind(letter) for line in area) for letter in "AB"}
    assert ends["A"] == pytest.approx(ends["B"] / 2, abs=1)  # each has its letter at its own last step
