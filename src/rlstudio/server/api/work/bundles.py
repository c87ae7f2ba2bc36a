"""A bundle as one file: a tar archive that is the same bytes each time it is made."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

from rlstudio.delivery.bundle import Bundle
from rlstudio.storage.folder import Folder


class _Pieces(io.RawIOBase):
    """What was written since it was last taken."""

    def __init__(self) -> None:
        self._data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._data += piece
        return len(piece)

    def take(self) -> bytes:
        data = bytes(self._data)
        self._data.clear()
        return data


def tar_pieces(bundle: Bundle, above: str) -> Iterator[bytes]:
    """Every file is verified before it is given out. `above`: the folder that the files are in."""
    pieces = _Pieces()
    with tarfile.open(fileobj=pieces, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(bundle.path.iterdir()):
            data = name.read_bytes() if name.name not in bundle.files else bundle.read(name.name)
            info = tarfile.TarInfo(f"{above}/{name.name}")
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
            yield pieces.take()
    yield pieces.take()


def write_tar(bundle: Bundle, folder: Folder, name: str) -> None:
    folder.replace(name, b"".join(tar_pieces(bundle, bundle.spec.name)))
