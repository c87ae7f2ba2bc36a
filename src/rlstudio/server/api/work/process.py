"""The process of the workbench: a task per line of its input, an answer per line of its output.

Whatever else prints goes to the log: the output is taken away before anything of others is imported.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

REAP_SECONDS = 1.0


def main(runs_dir: Path, imports: tuple[str, ...]) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    from rlstudio.server.api.work.refusals import refusal
    from rlstudio.server.api.work.tasks import Tasks

    tasks = Tasks(runs_dir, imports)
    while line := _next_order(orders):
        order = json.loads(line)
        known: Mapping[str, Callable[..., Any]] = tasks.known()
        try:
            reply = {"result": known[order["task"]](**order["arguments"])}
        except (Exception, SystemExit) as error:
            reply = {"refused": refusal(error)}
        try:
            answers.write(json.dumps(reply).encode() + b"\n")
            answers.flush()
        except BrokenPipeError:  # the server is gone; what was done is in the store
            return


def _next_order(orders: BufferedReader) -> bytes:
    """The next line. Meanwhile children that ended are let go: one that stays a zombie would pass for alive."""
    while not select.select([orders], [], [], REAP_SECONDS)[0]:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    return orders.readline()


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(sys.argv[2:]))
