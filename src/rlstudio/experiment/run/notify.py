"""A command of the user's that hears how a run or a sweep ended: `rlctl launch --notify "my-command --flag"`.

It gets one JSON document on its standard input, and some seconds to deal with it. What goes wrong with it is an event
of the run and nothing else. The command is kept in the store, never in the folder of a run (decision 0046).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rlstudio.core.errors import StorageError
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.folder.status import Status

SECONDS = 10.0
ENDS = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.INTERRUPTED})
NAMED_BY_REASON = frozenset({Reason.GOAL, Reason.PLATEAU, Reason.COLLAPSED, Reason.DIVERGED})
LONGEST_ANSWER = 300


class Notifier:
    def __init__(self, command: Sequence[str], folder: RunFolder, seconds: float = SECONDS) -> None:
        self._command, self._folder, self._seconds = list(command), folder, seconds
        self._last: RunState | None = None

    def __call__(self, status: Status) -> None:
        """Tell it of this end; a trial that waits for its sweep, or a run in its place in the queue, has none."""
        is_new = status.state != self._last  # an end may be recorded again, by a process that leaves in a hurry
        self._last = status.state
        if not (self._command and is_new and status.state in ENDS and status.reason != Reason.PAUSED):
            return
        if problem := call(self._command, document(status, self._folder), self._seconds):
            with suppress(StorageError):
                self._folder.event("notify_failed", command=self._command[0], reason=problem)


def call(command: Sequence[str], document: Mapping[str, object], seconds: float = SECONDS) -> str | None:
    """Run the command with the document on its standard input; returns what went wrong, if anything."""
    try:
        # A session of its own: Ctrl-C at the terminal, of which it may have to tell, does not end it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"cannot be started: {error}"
    with process:
        try:
            _, answer = process.communicate(json.dumps(document).encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"did not end within {seconds:g} s"
    if process.returncode == 0:
        return None
    return f"ended with {process.returncode}: {answer.decode(errors='replace').strip()[-LONGEST_ANSWER:]}"


def document(status: Status, folder: RunFolder) -> dict[str, object]:
    """What the command is told."""
    run = status.to_json()
    event = status.reason if status.reason in NAMED_BY_REASON else status.state.lower()
    fields = ("name", "state", "reason", "message", "algo", "env_id", "seed", "env_steps", "epoch", "total_epochs")
    return {
        "event": str(event),
        "run": status.id,
        **{name: run[name] for name in (*fields, "eval_return", "eval_interval")},
        "path": str(folder.path),
    }
