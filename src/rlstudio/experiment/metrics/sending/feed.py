"""Feed: from the metrics of a run to one sink, from wherever the sink stands.

The metrics file is the queue: it is written anyway, takes no memory, and nothing of it is lost while a sink is slow or
away. What the sink has is written down after each portion (`sent.py`), so that a feed that was killed goes on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rlstudio.core.errors import LONGEST_MESSAGE, UserError, message_of
from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.secrets import masked_text
from rlstudio.experiment.metrics.description import describe
from rlstudio.experiment.metrics.sending.sent import SentFile, SentMark, checksum_before, records_from, total_size
from rlstudio.experiment.metrics.sinks import DescribedSink
from rlstudio.storage.folder import Folder

if TYPE_CHECKING:
    from rlstudio.experiment.metrics.sinks import Sink

PORTION = 1000
"""Records that a sink gets at once; MLflow takes no more in one request."""


class Feed:
    """Use as a context. A sink that can take nothing back (`append_only`) gets no record twice: what a resumed run
    writes again has the same number of records, and those are passed over. After a roll-back they are others, so they
    are sent, and the sink is told the number of the attempt."""

    def __init__(self, run_dir: Path, cfg: SinkConfig, tags: Sequence[str] = ()) -> None:
        self._run_dir, self._folder, self._tags = run_dir, Folder(run_dir), tuple(tags)
        self._file = SentFile(run_dir, cfg)
        lock = self._file.lock()
        if lock is None:
            raise UserError(f"run {run_dir.name}: is being sent to {cfg.kind} by another process; wait for its end")
        self._lock = lock
        try:
            self._sent = self._file.read()
            self._sink: Sink = cfg.build(run_dir)
        except BaseException:
            os.close(lock)
            raise
        self.count = 0  # records that this feed has sent

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    @property
    def link(self) -> str:
        """Where the run is found in the tool."""
        return str(getattr(self._sink, "link", ""))

    def _begin(self) -> None:
        sink, sent = self._sink, self._sent
        if getattr(sink, "is_new", False):  # nothing is there, whatever is written down here
            sent.records, sent.marks = 0, []
        self._at = sent.newest_true(self._folder)
        sent.marks = [mark for mark in sent.marks if mark.position <= self._at.position]
        targets, self._repeated = _roll_backs(self._run_dir), 0
        attempt = len(targets)
        if getattr(sink, "append_only", False):
            self._repeated = sent.records - self._at.records
            if new := targets[sent.attempt :]:
                self._repeated = min(self._repeated, self._records_up_to(min(new)))
        else:
            sink.cut_back(self._at.offset)
        sent.records, sent.attempt, sent.link = self._at.records + self._repeated, attempt, self.link
        self._describe(attempt)
        self._file.write(sent)

    def _records_up_to(self, step: int) -> int:
        """How many of those that follow were measured up to this step: a roll-back to it left them as they were."""
        count, position = 0, self._at.position
        while True:
            records, lines, position = records_from(self._folder, position, PORTION)
            for record in records:
                if record.step > step:
                    return count
                count += 1
            if not lines:
                return count

    def _describe(self, attempt: int) -> None:
        if isinstance(self._sink, DescribedSink):
            self._sink.describe(describe(self._run_dir, self._tags), attempt)

    def step(self) -> bool:
        """Send a portion of what is new; False where there is nothing."""
        if total_size(self._folder) <= self._at.position:
            return False
        records, lines, end = records_from(self._folder, self._at.position, PORTION)
        if not lines:
            return False  # a line that is not whole yet
        fresh = records[self._repeated :]
        self._repeated -= len(records) - len(fresh)
        if fresh:
            self._sink.write(fresh)
        checksum = checksum_before(self._folder, end) or 0
        self._at = SentMark(end, self._at.records + len(records), self._sink.offset(), checksum)
        self._sent.add(self._at)
        self._file.write(self._sent)
        self.count += len(fresh)
        return True

    def finish(self) -> None:
        """Everything was sent: the sink gets the result and the files of the run."""
        if isinstance(self._sink, DescribedSink):
            self._sink.finish(describe(self._run_dir, self._tags))

    def __exit__(self, *_: object) -> None:
        try:
            self._sink.close()
        finally:
            os.close(self._lock)


def _roll_backs(run_dir: Path) -> list[int]:
    """The step that each roll-back of the run went to; -1 for its beginning, of which nothing stayed."""
    events = [event for event in RunFolder(run_dir).events() if event.get("kind") == "rolled_back"]
    steps = [event.get("to_env_steps") for event in events]
    return [step if isinstance(step, int) and step > 0 else -1 for step in steps]


def reason_of(error: Exception) -> str:
    """Why a sink failed: in one line, without secrets."""
    text = " ".join(masked_text(f"{type(error).__name__}: {message_of(error)}").split())
    return text[:LONGEST_MESSAGE]
