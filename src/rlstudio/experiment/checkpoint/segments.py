"""Segments on disk: `segments/<sha256>.safetensors`, written once and shared by the checkpoints of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

import numpy as np

from rlstudio.core.contracts import Segment
from rlstudio.core.errors import CheckpointError, StorageError
from rlstudio.experiment.checkpoint.manifest import SegmentRef, linked, segment_file
from rlstudio.storage.folder import Folder, temporary
from rlstudio.storage.safetensors_file import read_tensors, write_tensors
from rlstudio.storage.verified import open_verified
from rlstudio.storage.writers import Written

_FILE = re.compile(r"([0-9a-f]{64})\.safetensors")


class Segments:
    """Remembers which names are already on disk, so that a checkpoint writes only what is new.

    A name stands for one content only along one history of the run. After a roll-back the same name may be given to
    other rows, so what is remembered is what the loaded checkpoint refers to, and later loads can only narrow it.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known: dict[str, SegmentRef] | None = None

    def put(self, segments: Iterable[Segment]) -> list[SegmentRef]:
        """All of them on disk, durably; those known to be there are not even serialised."""
        known: dict[str, SegmentRef] = self._known or {}
        refs: list[SegmentRef] = []
        fresh: dict[str, SegmentRef] = {}
        named: set[str] = set()
        for segment in segments:
            if segment.name in named:
                raise ValueError(f"two segments of one state are called {segment.name}; each buffer needs its own name")
            named.add(segment.name)
            ref = known.get(segment.name)
            if ref is None or self._folder.size(ref.file) != ref.size:
                ref = fresh[segment.name] = linked(self._write(segment), refs[-1] if refs else None)
            refs.append(ref)
        if fresh:
            self._folder.sync("segments")
        self._known = known | fresh
        return refs

    def _write(self, segment: Segment) -> SegmentRef:
        part = f"segments/{temporary()}"
        try:
            with self._folder.stream(part) as writer:
                write_tensors(writer, segment.columns())
                written = writer.finish()
            self._folder.rename(part, segment_file(written.sha256))
        except StorageError:
            self._folder.discard(part)
            raise
        return SegmentRef(segment.name, *written)

    def adopt(self, refs: Iterable[SegmentRef]) -> None:
        """A verified checkpoint with these segments was loaded."""
        loaded = {ref.name: ref for ref in refs}
        if self._known is not None:
            loaded = {name: ref for name, ref in loaded.items() if self._known.get(name) == ref}
        self._known = loaded

    def opened(self, ref: SegmentRef) -> Segment:
        """The segment of a checkpoint; its columns are read (and verified again) when they are asked for."""
        return Segment(ref.name, partial(self._read, ref))

    def verify(self, ref: SegmentRef) -> None:
        with open_verified(self._folder, ref.file, Written(ref.size, ref.sha256)):
            pass

    def damage(self, refs: Iterable[SegmentRef]) -> str | None:
        """The first of them, by name, that does not verify, and why; None where all do."""
        try:
            for ref in sorted(set(refs), key=lambda ref: ref.name):
                self.verify(ref)
        except CheckpointError as error:
            return str(error)
        return None

    def _read(self, ref: SegmentRef) -> dict[str, np.ndarray]:
        with open_verified(self._folder, ref.file, Written(ref.size, ref.sha256)) as file:
            return read_tensors(file, ref.file)

    def collect(self, referenced: set[str]) -> None:
        """Remove the files whose sha256 no checkpoint refers to."""
        for name in self._folder.names("segments"):
            match = _FILE.fullmatch(name)
            if match and match[1] not in referenced:
                self._folder.unlink(f"segments/{name}")
        if self._known is not None:
            self._known = {name: ref for name, ref in self._known.items() if ref.sha256 in referenced}
