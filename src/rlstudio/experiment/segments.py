"""Segments on disk: `segments/<sha256>.safetensors`, written once and shared by the checkpoints of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from io import BufferedReader

import numpy as np

from rlstudio.core.contracts import Segment
from rlstudio.core.errors import CheckpointError, StorageError
from rlstudio.experiment.file_writers import CHUNK, Written
from rlstudio.experiment.files import Folder, temporary
from rlstudio.experiment.manifest import SegmentRef, segment_file
from rlstudio.experiment.safetensors_file import read_tensors, write_tensors

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
        known, refs = self._known or {}, []
        fresh: dict[str, SegmentRef] = {}
        for segment in segments:
            ref = fresh.get(segment.name) or known.get(segment.name)
            if ref is None or self._folder.size(ref.file) != ref.size:
                ref = fresh[segment.name] = self._write(segment)
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


def open_verified(folder: Folder, name: str, expected: Written) -> BufferedReader:
    """The file, open at its start, after its size and sha256 were found to be the expected ones."""
    try:
        if folder.kind(name) is None:
            raise CheckpointError(f"{name}: missing")
        file = folder.open(name)
    except StorageError as error:
        raise CheckpointError(str(error)) from error
    try:
        size = file.seek(0, 2)
        if size != expected.size:
            raise CheckpointError(f"{name}: has {size} bytes, the manifest says {expected.size}")
        file.seek(0)
        digest = sha256()
        while data := file.read(CHUNK):
            digest.update(data)
        if digest.hexdigest() != expected.sha256:
            raise CheckpointError(f"{name}: its sha256 is not the one in the manifest")
        file.seek(0)
    except BaseException as error:
        file.close()
        if isinstance(error, OSError):
            raise CheckpointError(f"{name}: cannot be read: {error.strerror}") from error
        raise
    return file
