"""The process of the workbench: a task per line of its input, an answer per line of its output.

Whatever else prints goes to the log: the output is taken away before anything of others is imported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def main(runs_dir: Path, imports: tuple[str, ...]) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    from rlstudio.server.api.work.refusals import refusal
    from rlstudio.server.api.work.tasks import Tasks

    tasks = Tasks(runs_dir, imports)
    while line := orders.readline():
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(sys.argv[2:]))
