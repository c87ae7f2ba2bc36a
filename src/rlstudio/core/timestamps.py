"""Moments as files and tables hold them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(moment: datetime | None = None) -> str:
    """ISO 8601 in UTC, to the millisecond; now, unless a moment is given."""
    return (moment or datetime.now(UTC)).isoformat(timespec="milliseconds")
