"""What a run says while it trains: to a person, briefly, or to a program; and always into its `stdout.log`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import PipeClosed, Terminal, stderr, stdout
from rlstudio.core.errors import StorageError

if TYPE_CHECKING:
    from rlstudio.cli.screen.panel import LivePanel
    from rlstudio.experiment.run.session import Session


@dataclass(frozen=True)
class OutputStyle:
    """How to talk."""

    quiet: bool = False
    json: bool = False

    def terminal(self) -> Terminal:
        """With `--json`, standard output belongs to the document."""
        return stderr() if self.json else stdout()


class RunOutput:
    """Says lines on the terminal and keeps them in the run's `stdout.log`. Neither a closed pipe nor a full disk may
    cost the run: whoever cannot be told is not told."""

    def __init__(self, session: Session, manner: OutputStyle) -> None:
        from rlstudio.storage.folder import Folder
        from rlstudio.storage.jsonl import LineWriter

        self._terminal: Terminal | None = None if manner.quiet else manner.terminal()
        self._log: LineWriter | None = None
        try:
            self._log = LineWriter(Folder(session.folder.path), session.folder.log_path.name)
        except StorageError:
            self._log = None

    def panel(self, title: str) -> LivePanel | None:
        if self._terminal is None or not self._terminal.is_live:
            return None
        from rlstudio.cli.screen.panel import LivePanel

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
        """Only into the log."""
        if self._log is None:
            return
        try:
            self._log.append(f"{text.safe(line)}\n".encode())
        except StorageError:
            self._log = None

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
