"""What a rank failed by, as rank 0 raises it."""

from __future__ import annotations

import json
import signal

from rlstudio.core import errors
from rlstudio.core.errors import RankLost, RLStudioError


def error_of(rank: int, process: str, code: int, report: bytes) -> Exception:
    """What it reported; otherwise how the process ended."""
    if not report:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return RankLost(f"rank {rank} ({process}) {how}; resume the run to go on")
    reported = json.loads(report)
    kind = getattr(errors, reported["kind"], None)
    if kind is RankLost:
        lost = RankLost(f"rank {rank}: {reported['message']}")
        lost.is_consequence = True
        return lost
    error: Exception
    if isinstance(kind, type) and issubclass(kind, RLStudioError):
        error = kind(f"rank {rank}: {reported['message']}")
    else:
        error = RuntimeError(f"rank {rank}: {reported['kind']}: {reported['message']}")
    error.add_note(reported["traceback"])
    return error
