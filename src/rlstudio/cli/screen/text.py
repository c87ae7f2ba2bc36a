"""Values as a person reads them: escaped, rounded, with thousands separated. Nothing here prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from rlstudio.core.format_values import duration, interval, number, plural, size

__all__ = ["age", "cut", "cut_middle", "duration", "interval", "number", "plural", "safe", "size", "sparkline"]

BARS = "▁▂▃▄▅▆▇█"


def safe(text: str) -> str:
    """Text that cannot move the cursor, change colours or hide a part of itself, whatever a file had in it."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text
    )


def cut(text: str, width: int) -> str:
    """At most so many characters, with a sign that some are missing."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def cut_middle(text: str, width: int) -> str:
    """The same for names, which are told apart by their ends as often as by how they begin."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def age(moment: str) -> str:
    """How long ago an ISO 8601 time was, in its largest unit."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return "-"
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as a row of small bars."""
    recent = [value for value in values if math.isfinite(value)][-width:]
    if not recent:
        return ""
    low, high = min(recent), max(recent)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in recent)
