"""The indices of many runs, for a process that answers about them again and again.

Those used last stay in memory. One of a long run is also kept in a folder of the caller's (a cache of the server, never
the run folder: reading changes nothing there, decisions 0029 and 0064), so that it is not read anew after a restart.
What lies there is only believed if it is whole and the metric files still begin with the very bytes it was made from.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np

from rlstudio.core.errors import StorageError
from rlstudio.experiment.metrics.indexed.index import MetricIndex, checksum, fits
from rlstudio.experiment.metrics.indexed.parsing import ROW
from rlstudio.experiment.metrics.indexed.snapshot import MetricSnapshot
from rlstudio.experiment.metrics.reader import opened_files
from rlstudio.storage.folder import Folder, ensure_directory

VERSION = 1
SUFFIX = ".index"
ROWS_IN_MEMORY = 16_000_000
"""About 450 MB. The index that was used last stays, however large it is."""

ROWS_WORTH_KEEPING = 100_000
"""Fewer are read from the run in a fifth of a second."""

GROWTH = 1.25
"""How much longer a run has become when its index is written again: each row is written a few times in all."""

BYTES_KEPT = 2 << 30
"""In the folder; what was written longest ago goes first."""


@dataclass
class _Shelved:
    index: MetricIndex
    lock: Lock = field(default_factory=Lock)
    is_loaded: bool = False
    rows: int = 0  # that it had when it was used last
    rows_kept: int = 0  # that are in the folder


class MetricShelf:
    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: where indices of long runs are kept; it is made when the first one is."""
        self._folder = folder
        self._shelved: OrderedDict[Path, _Shelved] = OrderedDict()
        self._lock = Lock()

    def snapshot(self, run_dir: Path) -> MetricSnapshot:
        """The metrics of a run as they are now. Of several threads that ask for the same run, one reads it."""
        with self._lock:
            shelved = self._shelved.setdefault(run_dir, _Shelved(MetricIndex(run_dir)))
            self._shelved.move_to_end(run_dir)
        with shelved.lock:
            if not shelved.is_loaded:
                self._load(run_dir, shelved)
            snapshot = shelved.index.snapshot()
            shelved.rows = len(snapshot.rows)
            self._keep(run_dir, shelved)
        with self._lock:
            while len(self._shelved) > 1 and sum(each.rows for each in self._shelved.values()) > ROWS_IN_MEMORY:
                self._shelved.popitem(last=False)
        return snapshot

    def _load(self, run_dir: Path, shelved: _Shelved) -> None:
        """Anything that is wrong with what was kept: the run is read anew."""
        shelved.is_loaded = True
        if self._folder is None or not self._folder.is_dir():
            return
        with suppress(StorageError, ValueError, LookupError, TypeError):
            data = Folder(self._folder).read(run_dir.name + SUFFIX, limit=BYTES_KEPT)
            if data is not None:
                shelved.rows_kept = restore(shelved.index, run_dir, data)

    def _keep(self, run_dir: Path, shelved: _Shelved) -> None:
        """A cache that cannot be written is no reason to answer nothing."""
        is_kept = shelved.rows_kept <= shelved.rows < GROWTH * shelved.rows_kept
        if self._folder is None or shelved.rows < ROWS_WORTH_KEEPING or is_kept:
            return
        with suppress(StorageError):
            data = document(shelved.index, run_dir)
            if data is not None:
                ensure_directory(self._folder)
                folder = Folder(self._folder)
                _make_room(folder, len(data))
                folder.replace(run_dir.name + SUFFIX, data, durable=False)
        shelved.rows_kept = shelved.rows  # also where it failed: not again with each request


def document(index: MetricIndex, run_dir: Path) -> bytes | None:
    """An index as a file: a checksum of the rest, a line that describes it, the rows. None where the run was cut back
    meanwhile."""
    snapshot, places = index.read()
    with ExitStack() as stack:
        files = list(opened_files(Folder(run_dir), stack).values())
        if not fits(places, files):
            return None
        whole = [checksum(file, 0, place.size) for file, place in zip(files, places, strict=False)]
    head = {
        "version": VERSION,
        "names": list(snapshot.codes),
        "clocks": sorted(snapshot.clocks),
        "damaged": snapshot.damaged,
        "files": [[place.size, value] for place, value in zip(places, whole, strict=True)],
    }
    rest = json.dumps(head).encode() + b"\n" + snapshot.rows.tobytes()
    return f"{zlib.crc32(rest):08x}\n".encode() + rest


def restore(index: MetricIndex, run_dir: Path, data: bytes) -> int:
    """Fill an index with what a file has, if it fits the run; how many rows that were."""
    if data[:9] != f"{zlib.crc32(memoryview(data)[9:]):08x}\n".encode():
        return 0
    end = data.index(b"\n", 9)
    head = json.loads(data[9:end])
    if head["version"] != VERSION:
        return 0
    sizes, whole = zip(*head["files"], strict=True)
    with ExitStack() as stack:
        files = list(opened_files(Folder(run_dir), stack).values())
        if len(files) < len(sizes) or any(
            checksum(file, 0, size) != value for file, size, value in zip(files, sizes, whole, strict=False)
        ):
            return 0
        rows = np.frombuffer(data, ROW, offset=end + 1)
        names = {name: code for code, name in enumerate(head["names"])}
        index.restore(files, sizes, MetricSnapshot(rows, names, frozenset(head["clocks"]), head["damaged"]))
    return len(rows)


def _make_room(folder: Folder, size: int) -> None:
    files = sorted((folder.path(name).stat().st_mtime, name) for name in folder.names() if name.endswith(SUFFIX))
    total = size + sum(folder.size(name) or 0 for _, name in files)
    for _, name in files:
        if total <= BYTES_KEPT:
            return
        total -= folder.size(name) or 0
        folder.unlink(name)
