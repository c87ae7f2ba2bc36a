"""Room on the disk that runs write to. A run that starts on a full disk ends at its first checkpoint: the next one
would too, and with its retries all of them. So a queue starts nothing there, and goes on once there is room."""

from __future__ import annotations

import os
from pathlib import Path

LEAST_FREE = 64 << 20
"""Bytes; less than any run needs that is worth to be queued."""


def shortage(*places: Path) -> str | None:
    """Which of these folders has no room, and how little; None where all have some."""
    for place in places:
        try:
            disk = os.statvfs(place)
        except OSError:
            continue  # it is not there yet, or not now: starting a run says what is wrong with it
        free = disk.f_bavail * disk.f_frsize
        if free < LEAST_FREE:
            return (
                f"{place}: {free / 2**20:.0f} MiB are free on its disk, and no run is started below"
                f" {LEAST_FREE >> 20} MiB; make room, and the queue goes on by itself"
            )
    return None
