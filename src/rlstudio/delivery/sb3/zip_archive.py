"""Reading a zip archive from an untrusted source: nothing is unpacked to disk, and every size has a limit.

Zip bombs, names that lead elsewhere, names that occur twice (readers disagree about which one counts) and encrypted or
oddly packed members are refused before a single member is read.
"""

from __future__ import annotations

import zipfile
import zlib
from io import BytesIO
from pathlib import Path

from rlstudio.core.errors import UserError

MAX_ARCHIVE = 256 << 20
MAX_TOTAL = 512 << 20  # unpacked
MAX_MEMBERS = 4096
_ENTRY = b"PK\x01\x02"  # begins each entry of the list of members
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class BadArchive(UserError):
    """The file is not a zip archive, or one that is not safe to read."""


def read_archive(path: Path) -> bytes:
    """The file as bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ARCHIVE + 1)
    except OSError as error:
        raise BadArchive(f"{path}: {error.strerror or error}; name a file to read") from error
    if len(data) > MAX_ARCHIVE:
        raise BadArchive(f"{path}: larger than {MAX_ARCHIVE >> 20} MiB, which no policy is")
    return data


class Archive:
    def __init__(self, data: bytes, label: str) -> None:
        self.label = label
        # Before the list of members is made, which takes many times its size of memory. Chance has the four bytes too.
        if (entries := data.count(_ENTRY)) > 2 * MAX_MEMBERS:
            raise BadArchive(f"{label}: lists {entries:,} members; at most {MAX_MEMBERS:,} are accepted")
        try:
            self._zip = zipfile.ZipFile(BytesIO(data))
            members = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError) as error:
            raise BadArchive(f"{label}: is not a zip archive: {error}") from error
        if len(members) > MAX_MEMBERS:
            raise BadArchive(f"{label}: has {len(members):,} members; at most {MAX_MEMBERS:,} are accepted")
        if (total := sum(member.file_size for member in members)) > MAX_TOTAL:
            raise BadArchive(f"{label}: unpacks to {total:,} bytes; at most {MAX_TOTAL:,} are accepted")
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            self._check(member)
            self._members[member.filename] = member

    def _check(self, member: zipfile.ZipInfo) -> None:
        name = member.orig_filename
        parts = name.rstrip("/").split("/")
        if any(part in ("", ".", "..") for part in parts) or "\\" in name or "\0" in name or ":" in parts[0]:
            raise BadArchive(f"{self.label}: the member name {name!a} leads out of the archive")
        if member.filename in self._members:
            raise BadArchive(f"{self.label}: {name!a} is in it twice")
        if member.flag_bits & 0x1 or member.compress_type not in _PACKINGS:
            raise BadArchive(f"{self.label}: {name!a} is encrypted or packed in an unusual way")

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str, limit: int) -> bytes:
        """One member of at most `limit` bytes, counted while it is unpacked: its header may lie."""
        member = self._members.get(name)
        if member is None:
            raise BadArchive(f"{self.label}: has no {name!r}")
        try:
            with self._zip.open(member) as file:
                data = file.read(limit + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise BadArchive(f"{self.label}: {name} is damaged: {error}") from error
        if len(data) > limit:
            raise BadArchive(f"{self.label}: {name} is larger than {limit:,} bytes")
        return data
