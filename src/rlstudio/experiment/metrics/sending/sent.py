"""What a sink has of a run: a small file in the run folder, so that sending goes on where it stood.

    artifacts/sinks/KIND-DIGEST.json    the digest is that of the destination: each place has its own

A mark says: the metrics up to this byte are there. It is checked against the metrics file before it is believed: a run
that went back to a checkpoint has cut its file and written on, and then the last line before the mark is another one.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from rlstudio.core.errors import StorageError
from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.experiment.metrics.reader import opened_files
from rlstudio.experiment.metrics.records import Record, from_line, metric_files
from rlstudio.storage.folder import Folder
from rlstudio.storage.jsonl import next_line

FOLDER = "artifacts/sinks"
LARGEST_RECORD = 1 << 20
MOST_MARKS = 256
TAIL = 1 << 12
"""Bytes before a mark of which a checksum is kept: more than a line, and every line has its time."""


class SentMark(NamedTuple):
    position: int = 0  # bytes of the metrics, over all files
    records: int = 0  # that were read up to there
    offset: int = 0  # where the sink stood
    checksum: int = 0  # of what stands before the position


START = SentMark()


@dataclass
class Sent:
    """`records` counts all that the sink ever got; `attempt` is that of the run when it got the last of them."""

    attempt: int = 0
    records: int = 0
    link: str = ""
    marks: list[SentMark] = field(default_factory=list)

    def add(self, mark: SentMark) -> None:
        self.marks = [*self.marks, mark][-MOST_MARKS:]
        self.records = max(self.records, mark.records)

    def newest_true(self, folder: Folder) -> SentMark:
        """The last mark that the metrics of the run still bear out."""
        for mark in reversed(self.marks):
            if checksum_before(folder, mark.position) == mark.checksum:
                return mark
        return START


class SentFile:
    def __init__(self, run_dir: Path, cfg: SinkConfig) -> None:
        self.folder = Folder(run_dir)
        digest = hashlib.sha256(cfg.destination().encode()).hexdigest()[:8]
        self.name = f"{FOLDER}/{cfg.kind}-{digest}"
        self.run_dir = run_dir

    def lock(self) -> int | None:
        """None while another process sends the run to the same place."""
        own_folder(self.run_dir, FOLDER)
        return self.folder.lock(f"{self.name}.lock")

    def read(self) -> Sent:
        """Nothing where there is no file, or a damaged one: then everything is sent again."""
        data = self.folder.read(f"{self.name}.json", limit=LARGEST_RECORD)
        try:
            value = json.loads(data or b"{}")
            marks = [SentMark(*(int(number) for number in mark)) for mark in value.get("marks", [])]
            return Sent(int(value.get("attempt", 0)), int(value.get("records", 0)), str(value.get("link", "")), marks)
        except (AttributeError, OverflowError, RecursionError, TypeError, ValueError):
            return Sent()

    def write(self, sent: Sent) -> None:
        self.folder.replace(f"{self.name}.json", json.dumps(asdict(sent)).encode(), durable=False)


def own_folder(run_dir: Path, name: str) -> Path:
    """A folder below that of the run, made where there is none. The run may be somebody else's: a link in place of one
    of them would have it made, and written to, anywhere."""
    folder, path = Folder(run_dir), ""
    for part in name.split("/"):
        path = f"{path}/{part}" if path else part
        if folder.kind(path) is None:
            with suppress(StorageError):  # another process makes it too; anything else is noticed now
                folder.make(path)
        if folder.kind(path) != "folder":
            raise StorageError(f"{folder.path(path)}: is no real folder; remove it")
    return folder.path(name)


def records_from(folder: Folder, position: int, most: int) -> tuple[list[Record], int, int]:
    """Records of whole lines from a position on; how many lines (also damaged ones) were read, and where they end."""
    records: list[Record] = []
    lines, start, end = 0, 0, position
    with ExitStack() as stack:
        for file in opened_files(folder, stack).values():
            size = file.seek(0, 2)
            if end < start + size:
                file.seek(end - start)
                while lines < most and (line := next_line(file)):
                    lines += 1
                    end = start + file.tell()
                    if (record := from_line(line)) is not None:
                        records.append(record)
            start += size
    return records, lines, end


def total_size(folder: Folder) -> int:
    return sum(folder.size(name) or 0 for name in metric_files(folder))


def checksum_before(folder: Folder, position: int) -> int | None:
    """Of the bytes before a position; None where the metrics do not reach so far."""
    wanted = min(position, TAIL)
    data, start = b"", 0
    with ExitStack() as stack:
        for file in opened_files(folder, stack).values():
            size = file.seek(0, 2)
            first, last = max(position - wanted, start), min(position, start + size)
            if first < last:
                file.seek(first - start)
                data += file.read(last - first)
            start += size
    return zlib.crc32(data) if len(data) == wanted else None


def unsent(run_dir: Path, cfg: SinkConfig) -> int:
    """How many records of a run the sink does not have."""
    sent, folder = SentFile(run_dir, cfg).read(), Folder(run_dir)
    position, count = sent.newest_true(folder).position, 0
    while True:
        _, lines, position = records_from(folder, position, 1 << 16)
        if not lines:
            return count
        count += lines
