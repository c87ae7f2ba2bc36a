"""Schedules: a number as a function of the fraction of the run that is behind us (0 at the start, 1 at the end)."""

from __future__ import annotations


def linear(start: float, end: float, fraction: float, until: float = 1.0) -> float:
    """From `start` to `end` over the first `until` of the run, then `end`."""
    if fraction >= until:
        return end
    return start + (end - start) * fraction / until


def learning_rate(lr: float, schedule: str, fraction: float) -> float:
    return linear(lr, 0.0, fraction) if schedule == "linear" else lr
