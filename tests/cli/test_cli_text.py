"""Values as a person reads them."""

from __future__ import annotations

import io
import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Cell, Terminal


@given(st.text())
def test_no_text_from_outside_can_steer_the_terminal(value: str) -> None:
    shown = text.safe(value)
    assert shown.isprintable()
    assert shown == value or not value.isprintable()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "-"),
        (0.0, "0.0000"),
        (0.5, "0.5000"),
        (-1.5, "-1.500"),
        (12.345, "12.35"),
        (1234.56, "1,234.6"),
        (1e-5, "1.00e-05"),
        (2.5e7, "2.50e+07"),
    ],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert text.number(value) == shown


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_number_is_short(value: float) -> None:
    assert len(text.number(value)) <= 10


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (3600, "1:00:00"), (math.nan, "-"), (-3, "0:00")]
)
def test_durations(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"), (1e18, "1000000.0 TB")]
)
def test_sizes(count: float, shown: str) -> None:
    assert text.size(count) == shown


@pytest.mark.parametrize(("ago", "shown"), [(65, "1m"), (7300, "2h"), (200_000, "2d"), (-50, "0s")])
def test_ages(ago: float, shown: str) -> None:
    assert text.age((datetime.now(UTC) - timedelta(seconds=ago)).isoformat()) == shown


@pytest.mark.parametrize("damaged", ["", "yesterday", "2026-11-15T00:00:00"])
def test_an_age_that_cannot_be_told(damaged: str) -> None:
    assert text.age(damaged) == "-"


@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True)), st.integers(1, 50))
def test_sparklines_fit_and_skip_what_is_not_finite(values: list[float], width: int) -> None:
    finite = [value for value in values if math.isfinite(value)]
    line = text.sparkline(values, width)
    assert len(line) == min(len(finite), width)
    assert set(line) <= set(text.BARS)


def test_a_sparkline_rises_with_its_values() -> None:
    assert text.sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == text.BARS
    assert text.sparkline([5, 5, 5], 8) == "▁▁▁"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": ""}, False),
    ],
)
def test_colour_only_where_it_is_wanted(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    screen = Screen()
    Terminal(screen).line("done", "green")
    assert ("\x1b[" in screen.getvalue()) == coloured


def test_no_colour_in_a_file() -> None:
    file = io.StringIO()
    Terminal(file).line("done", "green")
    assert file.getvalue() == "done\n"


def test_a_table_lines_up_whatever_its_style_and_content(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    Terminal(file).table(["a", "b"], [["one\x1b[2J", Cell("x", "red")], ["2", "y"]])
    head, first, second = file.getvalue().splitlines()
    assert first == "one\\x1b[2J  x"
    assert head.index("b") == first.index("x", 5) == second.index("y")


def test_json_has_no_nan() -> None:
    file = io.StringIO()
    Terminal(file).document({"a": [math.nan, (1.0, -math.inf)], 3: "ok\n"})
    assert file.getvalue() == '{\n  "a": [\n    null,\n    [\n      1.0,\n      null\n    ]\n  ],\n  "3": "ok\\n"\n}\n'
