"""Files that a manifest lists with size and sha256: parse such an entry, and open a file only if it matches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from io import BufferedReader

from rlstudio.core.errors import CheckpointError, StorageError
from rlstudio.storage.folder import Folder
from rlstudio.storage.writers import CHUNK, Written

MANIFEST = "MANIFEST.json"

LARGEST_NUMBER = 2**63 - 1
"""What the store can keep. A file from elsewhere may hold a number of any length."""

_HASH = re.compile(r"[0-9a-f]{64}")


def open_verified(folder: Folder, name: str, expected: Written) -> BufferedReader:
    """The file, open at its start, after its size and sha256 were compared with the expected ones."""
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


def written(entry: Mapping[str, object]) -> Written:
    return Written(whole_number(entry["size"]), hex_digest(entry["sha256"]))


def whole_number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number")
    if value > LARGEST_NUMBER:
        raise ValueError("a number in it is larger than any of ours")
    return value


def plain_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def hex_digest(value: object) -> str:
    if not _HASH.fullmatch(plain_text(value)):
        raise ValueError(f"{value!r} is not a sha256")
    return plain_text(value)
