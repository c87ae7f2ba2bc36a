"""Where the time of a run goes, as spans of all its processes: a trace that Perfetto and chrome://tracing open.

The process that trains makes an anonymous file; processes that it starts find it by the environment they inherit, and
each appends whole lines, so nothing is left over whichever of them dies. Clocks agree: all of them read the machine's
monotonic one. It decides nothing; switched off, a span costs the look at one attribute.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress

VARIABLE = "RLSTUDIO_TRACE"
LIMIT = 64 << 20
"""Bytes of a trace, some 500,000 spans; after that nothing is recorded."""

BUFFERED = 256
"""Spans that a process holds back before it writes them."""

FLUSH_SECONDS = 1.0


class Trace:
    def __init__(self) -> None:
        self.is_on = False
        self._file = -1  # of the process that started it
        self._fd = -1  # to append by: of each process its own
        self._lines: list[str] = []
        self._written_at = 0.0
        self._pid = 0

    def start(self, title: str) -> None:
        """Begin a trace in this process, and in those that it starts from here on."""
        self.stop()
        self._file = os.memfd_create("rlstudio-trace", os.MFD_CLOEXEC)
        os.environ[VARIABLE] = f"/proc/{os.getpid()}/fd/{self._file}"
        self.join(title)

    def join(self, title: str) -> None:
        """Take part in the trace of the process that started this one, if it makes one."""
        path = os.environ.get(VARIABLE)
        if path is not None and not self.is_on:
            with suppress(OSError):  # it is gone, or belongs to somebody else
                self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                self._open(title)

    def _open(self, title: str) -> None:
        self._pid, self.is_on, self._written_at = os.getpid(), True, time.perf_counter()
        self._lines = [_line({"name": "process_name", "ph": "M", "pid": self._pid, "args": {"name": title}})]
        self._write()

    def span(self, name: str, started: float, ended: float | None = None) -> None:
        """Something that this thread did between two readings of `time.perf_counter`, or until now."""
        if not self.is_on:
            return
        now = time.perf_counter()
        ended = now if ended is None else ended
        where = f'"pid":{os.getpid()},"tid":{threading.get_native_id()}'
        times = f'"ts":{started * 1e6:.1f},"dur":{max(ended - started, 0.0) * 1e6:.1f}'
        self._lines.append(f'{{"name":"{name}","ph":"X",{where},{times}}},\n')
        if len(self._lines) >= BUFFERED or now - self._written_at > FLUSH_SECONDS:
            self._write()

    def _write(self) -> None:
        lines, self._lines = "".join(self._lines).encode(), []
        self._written_at = time.perf_counter()
        with suppress(OSError):  # tracing never ends a run
            if os.fstat(self._fd).st_size + len(lines) > LIMIT:
                self.is_on = False
                return
            os.write(self._fd, lines)

    def content(self) -> bytes:
        """All that was recorded so far, as a JSON document; empty where nothing was."""
        if self._file < 0:
            return b""
        if self.is_on:
            self._write()
        lines = os.pread(self._file, os.fstat(self._file).st_size, 0)
        return b"[\n" + lines.rstrip(b",\n") + b"\n]\n" if lines else b""

    def stop(self) -> None:
        """Write what is held back, and record nothing more. A trace that was started in this process is gone then, and
        processes that start from now on do not find it."""
        if self._pid == os.getpid():  # a forked child has the descriptors of its parent
            if self.is_on:
                self._write()
            for descriptor in (self._file, self._fd):
                if descriptor >= 0:
                    os.close(descriptor)
            if self._file >= 0:
                os.environ.pop(VARIABLE, None)
        self._file = self._fd = -1
        self.is_on, self._lines = False, []


def _line(event: dict[str, object]) -> str:
    return json.dumps(event, separators=(",", ":")) + ",\n"


TRACE = Trace()
