"""Options whose value may be left out, as in `rlctl play RUN --video`. Typer knows none, so an empty value is put
behind them before it reads the line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

BARE = {"play": ("--video", "-o")}
"""Command -> its options that may stand bare, which take an empty text for their default."""


def with_values(given: Sequence[str]) -> list[str]:
    """The command line with a value behind each of them: also where it is the last word, or an option follows."""
    bare = BARE.get(given[0], ()) if given else ()
    words: list[str] = []
    for word, following in pairwise([*given, "-"]):
        words.append(word)
        if word in bare and following.startswith("-"):
            words.append("")
    return words
