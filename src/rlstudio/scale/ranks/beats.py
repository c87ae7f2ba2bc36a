"""Signs of life of ranks that rank 0 has started: numbers in a file that all of them have mapped.

Each of them counts its own up from a thread, which stops where the process is stopped or keeps the interpreter to
itself. The thread also ends the process when rank 0 is gone: the other end of its pipe is closed then, however it died.
"""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

import numpy as np

from rlstudio.core.host.process_exit import leave

EVERY = 0.5
"""Seconds between two."""

FILE = "beats"


class Beats:
    """`counts[rank]` goes up; `ready[rank]` is 1 once the rank is about to meet the others."""

    def __init__(self, folder: Path, size: int) -> None:
        path = folder / FILE
        if not path.exists():
            path.write_bytes(bytes(16 * size))
        mapped = np.memmap(path, np.int64, "r+", shape=(2, size))
        self.counts, self.ready = mapped


def keep_beating(beats: Beats, rank: int, lifeline: int) -> None:
    """From a thread of its own until the process ends, which it does when nobody holds the other end of the pipe."""

    def beat() -> None:
        while True:
            closed, _, _ = select.select([lifeline], [], [], EVERY)
            if closed and not os.read(lifeline, 1):
                leave(1)
            beats.counts[rank] += 1

    threading.Thread(target=beat, name="beats", daemon=True).start()
