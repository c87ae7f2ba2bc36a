"""Where metrics go besides the run's own JSON lines: a CSV file, TensorBoard, MLflow and Weights & Biases (`sending`),
or a sink of another package.

`offset` and `cut_back` are the same pair as in `MetricsWriter`: a checkpoint stores where each sink stood, and a
resumed run cuts each one back to it.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rlstudio.core.errors import StorageError, UserError
from rlstudio.core.host.installation import remedy
from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.experiment.folder.run_folder import LARGEST_FILE, STATUS
from rlstudio.experiment.folder.status import parse_status
from rlstudio.experiment.metrics.records import Record
from rlstudio.storage.folder import Folder, ensure_directory
from rlstudio.storage.jsonl import LineWriter

if TYPE_CHECKING:
    from rlstudio.experiment.metrics.description import RunDescription

OWN_FILES = ("csv",)
"""Sinks that the training process writes itself; every other one is fed by a process of its own."""

EVENTS_FOLDER = "artifacts/tensorboard"


class Sink(Protocol):
    """Made for one run, from its settings (`SinkConfig`) and the run's folder."""

    def write(self, records: Sequence[Record]) -> None: ...

    def flush(self) -> None: ...

    def offset(self) -> int:
        """How much it has written; everything before that is safe on disk."""
        ...

    def cut_back(self, offset: int) -> int:
        """Remove what came after this offset; returns how much before it is missing."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class DescribedSink(Protocol):
    """A sink that also takes what is known of the run."""

    def describe(self, run: RunDescription, attempt: int) -> None:
        """Before the first record of each start; `attempt` counts the roll-backs of the run so far."""
        ...

    def finish(self, run: RunDescription) -> None:
        """The run has ended, and all its records were written."""
        ...


def csv_sink(cfg: SinkConfig, run_dir: Path) -> CsvSink:
    """`artifacts/metrics.csv`: one row per value."""
    return CsvSink(run_dir)


def tensorboard_sink(cfg: SinkConfig, run_dir: Path) -> TensorBoardSink:
    """Event files for TensorBoard, in `artifacts/tensorboard/NAME-seedSEED`."""
    return TensorBoardSink(event_folder(run_dir))


def event_folder(run_dir: Path) -> Path:
    """Where the event files of a run lie. TensorBoard calls a run by the path of this folder, so its name and seed are
    in it. A run that was begun before they were goes on where it began: in another folder it would be another run."""
    folder = Folder(run_dir)
    above = run_dir / EVENTS_FOLDER
    if folder.kind(EVENTS_FOLDER) == "other":
        raise StorageError(f"{above}: is a link; remove it")
    status = parse_status(folder.read(STATUS, limit=LARGEST_FILE) or b"")
    begun = any(folder.kind(f"{EVENTS_FOLDER}/{name}") == "file" for name in folder.names(EVENTS_FOLDER))
    return above if status is None or begun else above / seed_label(status.name, status.seed)


def seed_label(name: str, seed: int) -> str:
    """A run as TensorBoard is to call it."""
    return f"{name}-seed{seed}"


class CsvSink:
    """`artifacts/metrics.csv`, one row per value: `ts,step,key,value,tags` (tags joined by spaces).

    Long, not wide: the columns never change, so a row is only ever appended, whatever an algorithm reports later.
    """

    NAME = "artifacts/metrics.csv"
    HEADER = ("ts", "step", "key", "value", "tags")

    def __init__(self, run_dir: Path) -> None:
        self._folder = Folder(run_dir)
        self._rows: list[Sequence[object]] = []
        self._file: LineWriter | None = None

    def write(self, records: Sequence[Record]) -> None:
        self._rows += [(r.ts, r.step, r.key, repr(r.value), " ".join(r.tags)) for r in records]

    def flush(self) -> None:
        file = self._open()
        rows, self._rows = self._rows, []
        if file.size == 0:
            rows.insert(0, self.HEADER)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        file.append(text.getvalue().encode())

    def offset(self) -> int:
        self.flush()
        self._open().sync()
        return self._open().size

    def cut_back(self, offset: int) -> int:
        self.close()
        self._rows = []
        size = self._folder.size(self.NAME) or 0
        if size > offset:
            self._folder.keep_prefix(self.NAME, offset)
        return max(0, offset - size)

    def _open(self) -> LineWriter:
        if self._file is None:
            self._file = LineWriter(self._folder, self.NAME)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class TensorBoardSink:
    """Event files in one folder, written by TensorBoard's own writer.

    Event files cannot be cut. On resume a new one begins with a mark that hides everything from that step on.
    """

    def __init__(self, path: Path) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise UserError(f"tracking: tensorboard is not installed; {remedy('', 'tensorboard')}") from error
        self._events, self._summaries = event_pb2, summary_pb2
        if path.is_symlink():
            raise StorageError(f"{path}: is a link; remove it")
        ensure_directory(path)
        self._writer = EventFileWriter(str(path))
        self._writer.flush()  # the file is there now, and private like every other one
        for file in path.iterdir():
            if not file.is_symlink():
                file.chmod(0o600)
        self._next = 0

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            value = self._summaries.Summary.Value(tag=record.key, simple_value=record.value)
            summary = self._summaries.Summary(value=[value])
            self._writer.add_event(self._events.Event(wall_time=record.ts, step=record.step, summary=summary))
            self._next = max(self._next, record.step + 1)

    def describe(self, run: RunDescription, attempt: int) -> None:
        """Settings as hyperparameters, to compare runs by; config and origin as texts."""
        from rlstudio.experiment.metrics.event_summaries import described

        for summary in described(run):
            self._writer.add_event(self._events.Event(wall_time=time.time(), step=0, summary=summary))

    def finish(self, run: RunDescription) -> None:
        """The result of the run, beside its hyperparameters. Files stay in the run folder, where the events lie."""
        from rlstudio.experiment.metrics.event_summaries import ended

        now = time.time()
        self._writer.add_event(self._events.Event(wall_time=now, step=run.status.env_steps, summary=ended(run, now)))

    def flush(self) -> None:
        self._writer.flush()

    def offset(self) -> int:
        """The first step that has not been written."""
        self.flush()
        return self._next

    def cut_back(self, offset: int) -> int:
        log = self._events.SessionLog(status=self._events.SessionLog.START)
        self._writer.add_event(self._events.Event(step=offset, session_log=log))
        self._next = offset
        return 0

    def close(self) -> None:
        self._writer.close()
