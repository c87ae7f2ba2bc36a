"""Processes of a test's own."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


def fork(act: Callable[[], object]) -> int:
    """A process of its own; its connections are, too."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid
