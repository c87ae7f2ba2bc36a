"""Faults on demand: every change of the file system passes here first, numbered from one.

`RLSTUDIO_FAILPOINT="n:kind"` makes the n-th change of this process fail, so a test can visit every one of them:

    kill    the process dies before the change
    torn    half of the bytes are written, then the process dies (a change without bytes: as `kill`)
    eio     the change is refused with an I/O error
    enospc  half of the bytes are written, then the disk is full (a change without bytes: refused)
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from rlstudio.core.errors import ConfigError

VARIABLE = "RLSTUDIO_FAILPOINT"
KINDS = ("kill", "torn", "eio", "enospc")

Kind = Literal["create", "write", "sync", "rename", "unlink", "mkdir", "rmdir"]


class Operation(NamedTuple):
    """One change of the file system, about to happen."""

    kind: Kind
    path: Path
    target: Path | None = None  # only for a rename
    data: bytes | memoryview = b""  # only for a write


class _Passed:
    count = 0
    observer: Callable[[Operation], None] | None = None


def passed() -> int:
    """How many changes this process has asked for."""
    return _Passed.count


def restart(observer: Callable[[Operation], None] | None = None) -> None:
    """Count from zero again, and pass each coming change to `observer`."""
    _Passed.count = 0
    _Passed.observer = observer


def reach(operation: Operation, write_half: Callable[[], object] | None = None) -> None:
    """Called before each change; returns when it may go ahead. `write_half` writes the first half of its bytes."""
    _Passed.count += 1
    if _Passed.observer is not None:
        _Passed.observer(operation)
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    number, kind = _parse(wanted)
    if number != _Passed.count:
        return
    if kind in ("torn", "enospc") and write_half is not None:
        write_half()
    if kind in ("kill", "torn"):
        os.kill(os.getpid(), signal.SIGKILL)
    code = errno.EIO if kind == "eio" else errno.ENOSPC
    raise OSError(code, os.strerror(code))


def _parse(text: str) -> tuple[int, str]:
    number, _, kind = text.partition(":")
    if not number.isdigit() or kind not in KINDS:
        raise ConfigError(f"{VARIABLE}={text}: expected NUMBER:KIND with KIND one of {', '.join(KINDS)}")
    return int(number), kind
