"""Values as a person reads them, on a terminal and on a page: rounded, with thousands separated."""

from __future__ import annotations

import math

UNITS = ("B", "kB", "MB", "GB", "TB")


def number(value: float | None) -> str:
    """About four digits; `-` where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    digits = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3 if abs(value) >= 1 else 4
    return f"{value:,.{digits}f}"


def plural(count: object, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def interval(bounds: tuple[float, float] | None) -> str:
    return f"[{number(bounds[0])}, {number(bounds[1])}]" if bounds else "-"


def duration(seconds: float) -> str:
    """`0:07`, `12:30`, `3:05:00`."""
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def size(count: float) -> str:
    """Bytes in decimal units, as disks are sold."""
    if count < 1000:
        return f"{count:.0f} B"
    power = min(int(math.log10(count) // 3), len(UNITS) - 1)
    return f"{count / 1000**power:.1f} {UNITS[power]}"
