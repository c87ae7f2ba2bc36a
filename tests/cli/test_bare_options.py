"""An option whose value may be left out gets an empty one, and no other word of the line changes."""

import pytest

from rlstudio.cli.arguments.bare_options import with_values


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("play last --video", ["play", "last", "--video", ""]),
        ("play -o --seed 3 last", ["play", "-o", "", "--seed", "3", "last"]),
        ("play last --video out.mp4", ["play", "last", "--video", "out.mp4"]),
        ("play --video=out.mp4 last", ["play", "--video=out.mp4", "last"]),
        ("export last -o", ["export", "last", "-o"]),
        ("", []),
    ],
)
def test_a_bare_option_has_an_empty_value(typed: str, read: list[str]) -> None:
    assert with_values(typed.split()) == read
