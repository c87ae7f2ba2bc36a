"""`fragments.jsonl`: of a run with asynchronous workers, which fragments made which update.

    {"step": 4096, "seed": "1/collector", "rounds": [[0, [[0, 0, 64], [1, 0, 64]]], ...]}

A round has the version of the weights that were the newest, and of each fragment that was learned from its worker, the
version of the weights that acted, and its vector steps. Fragments of a worker follow each other, so with the address
`seed` of the random numbers and the weights of that version each can be collected again, bit for bit
(`analysis/repeat/from_log.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from pathlib import Path

from rlstudio.core.contracts import FragmentRound, FragmentTag
from rlstudio.storage import jsonl
from rlstudio.storage.folder import Folder

NAME = "fragments.jsonl"
MOST_OF_LINE = 20_000
"""Fragments of one line; more are put into several, since a reader takes no line of a megabyte."""


class FragmentLog:
    """Only appended to, and cut back to a checkpoint like the metrics. A run without such workers has no file."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = Folder(run_dir)
        self._file: jsonl.LineWriter | None = None

    def add(self, step: int, rounds: Sequence[FragmentRound]) -> None:
        """What was learned from until this step, since the last call."""
        counts = accumulate(len(one.fragments) for one in rounds)
        for _, group in groupby(zip(counts, rounds, strict=True), lambda item: item[0] // MOST_OF_LINE):
            part = [one for _, one in group]
            line = {"step": step, "seed": part[0].seed, "rounds": [[one.version, one.fragments] for one in part]}
            self._open().append(jsonl.encode(line))

    def _open(self) -> jsonl.LineWriter:
        if self._file is None:
            self._file = jsonl.LineWriter(self._folder, NAME)
        return self._file

    def offset(self) -> int:
        """Where it ends, with everything before that safe on disk."""
        if self._file is not None:
            self._file.sync()
        return self._folder.size(NAME) or 0

    def cut_back(self, offset: int) -> int:
        """Forget what came after; returns how many bytes before it are missing."""
        self.close()
        size = self._folder.size(NAME) or 0
        if size > offset:
            self._folder.keep_prefix(NAME, offset)
        return max(0, offset - size)

    def rounds(self) -> Iterator[FragmentRound]:
        """All that there are, the oldest first."""
        if self._folder.kind(NAME) is None:
            return
        with self._folder.open(NAME) as file:
            for line in jsonl.decode(jsonl.whole_lines(file)):
                for version, tags in line["rounds"]:
                    yield FragmentRound(version, line["seed"], [FragmentTag(*tag) for tag in tags])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
