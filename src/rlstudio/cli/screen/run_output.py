"""The lines that a run prints while it trains: on the terminal unless `--quiet`, and always in its `stdout.log`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import PipeClosed, Terminal, stderr, stdout
from rlstudio.core.errors import StorageError

if TYPE_CHECKING:
    from rlstudio.cli.screen.live.panel import LivePanel
    from rlstudio.experiment.run.session import Session


@dataclass(frozen=True)
class OutputStyle:
    """`quiet`: print only the ids of runs. `json`: print one JSON document at the end."""

    quiet: bool = False
    json: bool = False

    def terminal(self) -> Terminal:
        """Where progress goes: with `--json`, standard output is for the document alone."""
        return stderr() if self.json else stdout()


class RunOutput:
    """Prints lines on the terminal and appends them to the run's `stdout.log`. After a closed pipe or a full disk the
    output that failed is dropped, and the run goes on."""

    def __init__(self, session: Session, style: OutputStyle) -> None:
        from rlstudio.storage.folder import Folder
        from rlstudio.storage.jsonl import LineWriter

        self._terminal: Terminal | None = None if style.quiet else style.terminal()
        self._log: LineWriter | None = None
        try:
            self._log = LineWriter(Folder(session.folder.path), session.folder.log_path.name)
        except StorageError:
            self._log = None

    def panel(self, title: str) -> LivePanel | None:
        if self._terminal is None or not self._terminal.is_live:
            return None
        from rlstudio.cli.screen.live.panel import LivePanel

        return LivePanel(self._terminal.stream, title)

    def say(self, line: str = "", style: str = "") -> None:
        self.note(line)
        if self._terminal is None:
            return
        try:
            self._terminal.line(line, style)
            self._terminal.flush()
        except (PipeClosed, StorageError):
            self._terminal.abandon()
            self._terminal = None

    def note(self, line: str) -> None:
        """Append to the log only."""
        if self._log is None:
            return
        try:
            self._log.append(f"{text.safe(line)}\n".encode())
        except StorageError:
            self._log = None

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
