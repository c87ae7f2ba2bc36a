"""The process that feeds the sinks of a run: `python -m rlstudio.experiment.metrics.sending.feeder`.

It gets one line of JSON, `{"run_dir", "sinks", "registered"}`, and works until it reads a second line: then it sends
the rest and ends. Each sink has a thread of its own, so that one that hangs holds up no other. It ends at once when the
process that started it is gone. On its output it says, a JSON line each, which sink failed and why.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from rlstudio.core.catalog import SINKS
from rlstudio.core.config import parse
from rlstudio.experiment.config.sections import SinkConfig, TrackingConfig
from rlstudio.experiment.metrics.sending.feed import Feed, reason_of

POLL_SECONDS = 0.5
PARENT_SECONDS = 1.0  # a process forked by the run may hold the pipe open, so the parent is looked for too
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds between two attempts to reach a sink that failed."""

Complain = Callable[[str, str], None]


def follow(run_dir: Path, cfg: SinkConfig, ending: threading.Event, complain: Complain) -> None:
    """Feed one sink until the end; one that fails is tried again, less and less often, and once more at the end."""
    wait = FIRST_WAIT
    while True:
        was_ending = ending.is_set()
        try:
            with Feed(run_dir, cfg) as feed:
                while feed.step() or not ending.wait(POLL_SECONDS):
                    wait = FIRST_WAIT
                while feed.step():
                    pass
                feed.finish()
                return
        except Exception as error:  # whatever a tool raises, the others go on
            complain(cfg.kind, reason_of(error))
        if was_ending:
            return
        ending.wait(wait)
        wait = min(2 * wait, LONGEST_WAIT)


class Reports:
    """What the process that started this one reads: a JSON line for each failure that is new."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._written: set[tuple[str, str]] = set()

    def __call__(self, kind: str, reason: str) -> None:
        if (kind, reason) not in self._written:
            self._written.add((kind, reason))
            os.write(self._output, json.dumps({"sink": kind, "reason": reason}).encode() + b"\n")


def main() -> None:
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; the run decides when this ends
    parent, reports, silence = os.getppid(), Reports(os.dup(1)), os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what tools print goes nowhere: it may hold secrets
        os.dup2(silence, stream)
    with open(0, "rb", buffering=0, closefd=False) as source:  # nothing behind the line is taken with it
        order = json.loads(source.readline())
    for name, target in order["registered"].items():
        SINKS.register(name, target)
    sinks, ending = parse(TrackingConfig, {"sinks": order["sinks"]}).chosen_sinks(), threading.Event()
    arguments = [(Path(order["run_dir"]), cfg, ending, reports) for cfg in sinks]
    threads = [threading.Thread(target=follow, args=each, daemon=True) for each in arguments]
    for thread in threads:
        thread.start()
    wait_for_end(parent)
    ending.set()
    while os.getppid() == parent and (alive := [thread for thread in threads if thread.is_alive()]):
        alive[0].join(POLL_SECONDS)
    os._exit(0)  # no tool's own thread keeps it


def wait_for_end(parent: int) -> None:
    """Until the second line; where the run is gone, also by `kill -9`, this process ends here and now."""
    readable: list[int] = []
    while not readable:
        readable, _, _ = select.select([0], [], [], PARENT_SECONDS)
        if os.getppid() != parent:
            os._exit(0)
    if not os.read(0, 1):
        os._exit(0)


if __name__ == "__main__":
    main()
