"""SinkProcess: the sinks of a run in a process of their own, which can neither slow nor end the run.

The training process does nothing for a sink but start this, once, and look at each flush whether it complained.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rlstudio.core.catalog import SINKS
from rlstudio.core.errors import StorageError, UserError
from rlstudio.core.host.extras import Extra
from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.sending.sent import unsent
from rlstudio.storage.jsonl import decode

EVENT = "sink_failed"
_MODULE = "rlstudio.experiment.metrics.sending.feeder"


class SinkProcess:
    """Starts with the first flush: before that there is nothing to send, and many a run ends there by a mistake."""

    def __init__(self, run_dir: Path, sinks: Sequence[SinkConfig], finish_seconds: float) -> None:
        for sink in sinks:
            require_installed(sink)
        self._run_dir, self._sinks, self._seconds = run_dir, tuple(sinks), finish_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._reported: set[str] = set()  # sinks with an event: one of each session is enough
        self.warnings: list[str] = []  # the same, for whoever watches the run

    def look(self) -> None:
        """Start it where it does not run yet, and record what it complained about."""
        if not self._sinks:
            return
        if self._process is None:
            try:
                self._process = self._start()
            except OSError as error:  # no more processes, or no memory for one
                for sink in self._sinks:
                    self._record(sink.kind, f"its process cannot be started: {error.strerror or error}")
                return
        for kind, reason in self._complaints():
            self._record(kind, reason)

    def drop(self) -> None:
        """Before the metrics are cut back: end it at once; the next look starts another, which goes on from what the
        sinks have then."""
        self._end(0.0)

    def close(self) -> None:
        """Give it its time to send the rest, and end it. What a sink still lacks is recorded."""
        if self._process is None:
            return
        code = self._process.poll()
        late = f"not done within tracking.finish_seconds={self._seconds:g}"
        otherwise = late if code is None else f"the process that sends ended by itself, with status {code}"
        complaints = self._end(self._seconds)
        for sink in self._sinks:
            reasons = [reason for kind, reason in complaints if kind == sink.kind]
            missing = 0 if sink.kind in self._reported else self._missing(sink)
            if reasons or missing:
                self._record(sink.kind, (reasons or [otherwise])[-1], missing)

    def _missing(self, sink: SinkConfig) -> int:
        try:
            return unsent(self._run_dir, sink)
        except StorageError:  # the run has ended well, and stays so
            return 0

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the run
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        order = {
            "run_dir": str(self._run_dir.absolute()),
            "sinks": [sink.model_dump(mode="json") for sink in self._sinks],
            "registered": SINKS.registered(),
        }
        with suppress(OSError):  # it ended already, which is noticed at the end
            process.stdin.write(json.dumps(order).encode() + b"\n")
        return process

    def _complaints(self) -> Iterator[tuple[str, str]]:
        assert self._process is not None
        assert self._process.stdout is not None
        data = self._process.stdout.read(1 << 16) or b""  # a line is one write, and so is never torn
        for report in decode(data.splitlines(keepends=True)):
            yield str(report.get("sink")), str(report.get("reason"))

    def _end(self, seconds: float) -> list[tuple[str, str]]:
        """Ask, wait, and kill; returns what it still complained about."""
        process = self._process
        if process is None:
            return []
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if seconds:
                with suppress(OSError, subprocess.TimeoutExpired):
                    process.stdin.write(b"\n")
                    process.wait(seconds)
        finally:
            process.kill()
            process.wait()
            complaints = list(self._complaints())
            with suppress(OSError):
                process.stdin.close()
            process.stdout.close()
            self._process = None
        return complaints

    def _record(self, kind: str, reason: str, missing: int | None = None) -> None:
        """One event for each sink of a session, however often it fails."""
        if kind in self._reported:
            return
        self._reported.add(kind)
        with suppress(StorageError):  # a disk that is full is the run's own trouble, and told there
            self._write_event(kind, reason, missing)

    def _write_event(self, kind: str, reason: str, missing: int | None) -> None:
        folder = RunFolder(self._run_dir)
        amount = {} if missing is None else {"unsent": missing}
        send = f"the run goes on without it; send the rest with: rlctl send {folder.id} --to {kind}"
        self.warnings.append(f"tracking: the sink {kind} failed: {reason}; {send}")
        folder.event(EVENT, sink=kind, reason=reason, remedy=send, **amount)
        folder.close()


def require_installed(sink: SinkConfig) -> None:
    """One line with what to install, before the run begins; the tool itself is not imported here."""
    extra = getattr(SINKS.load(sink.kind), "extra", None)
    if isinstance(extra, Extra) and not extra.installed:
        raise UserError(f"tracking: the sink {sink.kind} needs the package {extra.module}; {extra.remedy}")
