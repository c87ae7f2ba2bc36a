"""What an update of a curriculum leads to, beside the next Draw."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import JsonValue

GROUP = "curriculum/"
"""What the names of its metrics begin with."""


class Change(NamedTuple):
    """An event of the run."""

    kind: str
    facts: dict[str, JsonValue]


class CurriculumOutcome(NamedTuple):
    changes: tuple[Change, ...] = ()
    failure: str | None = None  # why the run must end


NO_CHANGE = CurriculumOutcome()
