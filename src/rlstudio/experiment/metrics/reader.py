"""Reading the metrics of a run line by line, also while the run still writes. Whole curves: `indexed`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path

from rlstudio.experiment.metrics.records import CURRENT, Record, from_line, metric_files
from rlstudio.storage.folder import Folder
from rlstudio.storage.jsonl import whole_lines


def read_metrics(
    run_dir: Path,
    keys: Collection[str] | None = None,
    follow: bool = False,
    wait: Callable[[], bool] | None = None,
) -> Iterator[Record]:
    """The records of a run (only those `keys`), in the order they were written; torn and damaged lines are left out.

    With `follow` it goes on as the run writes. `wait` is called when there is nothing new, and says whether to look
    again; by default it sleeps a moment and never gives up.
    """
    tail = _Tail(Folder(run_dir))
    wait = wait or _sleep
    try:
        while True:
            yield from _parsed(tail.new_lines(), keys)
            if not follow or not wait():
                return
    finally:
        tail.close()


def _sleep() -> bool:
    time.sleep(0.3)
    return True


class _Tail:
    """Whole lines across all files, each once, as they come.

    Its place is a number of lines, which survives rotations and a resume that cut the files back: what a resumed run
    writes again has the same number of lines. As long as the newest file stays the same one, reading just goes on.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._done = 0
        self._skip = 0
        self._file: BufferedReader | None = None  # held open, so that no other file gets its inode

    def new_lines(self) -> Iterator[bytes]:
        if self._file is not None and self._is_newest(self._file):
            yield from self._rest(self._file)
            return
        self._skip = self._done
        for name in metric_files(self._folder):
            self.close()
            self._file = self._folder.open(name)
            yield from self._rest(self._file)

    def _is_newest(self, file: BufferedReader) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._folder.path(CURRENT).lstat())
        except FileNotFoundError:
            return False

    def _rest(self, file: BufferedReader) -> Iterator[bytes]:
        for line in whole_lines(file):
            if self._skip:
                self._skip -= 1
            else:
                self._done += 1
                yield line

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _parsed(lines: Iterable[bytes], keys: Collection[str] | None) -> Iterator[Record]:
    for line in lines:
        record = from_line(line)
        if record is not None and (keys is None or record.key in keys):
            yield record


def damaged_lines(folder: Folder) -> int:
    """How many lines of a run's metrics are not what was written."""
    count = 0
    for name in metric_files(folder):
        with folder.open(name) as file:
            count += sum(from_line(line) is None for line in whole_lines(file))
            count += bool(file.read(1))  # a torn line
    return count


def copy_metrics(source: Folder, target: Folder, offset: int) -> None:
    """What a run wrote before `offset`, as files of the same names in another run: positions mean the same in both."""
    with ExitStack() as stack:
        for name, file in opened_files(source, stack).items():
            size = min(os.fstat(file.fileno()).st_size, offset)
            if size:
                target.copy(name, file, size)
            offset -= size


def opened_files(folder: Folder, stack: ExitStack) -> dict[str, BufferedReader]:
    """All metric files, oldest first; again where a run in training began its next one meanwhile."""
    while True:
        files = {name: stack.enter_context(folder.open(name)) for name in metric_files(folder)}
        if list(files) == metric_files(folder):
            return files
        stack.close()
