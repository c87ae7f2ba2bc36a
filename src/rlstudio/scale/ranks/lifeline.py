"""How a rank that rank 0 has started ends with it, however it dies: the other end of its pipe is closed then."""

from __future__ import annotations

import os
import threading

from rlstudio.core.host.process_exit import leave


def end_with(lifeline: int) -> None:
    """Watch the pipe from a thread of its own; nothing is ever written to it."""

    def watch() -> None:
        os.read(lifeline, 1)
        leave(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
