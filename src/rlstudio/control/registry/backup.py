"""A backup: the store and the bundles of the registry in one file, taken while runs write, and put back elsewhere.

It is a tar file. Its first member, MANIFEST.json, has size and sha256 of every other one and is itself sealed:

    store.db                          the SQLite store, as it was at one moment
    registry/blobs/DIGEST/...         each bundle that a version of that moment refers to

SQLite copies its pages under a read lock, so the copy is whole whatever others write meanwhile. Bundles never change.
Run folders are not in it: each file in them has its own checksum, and any tool copies them.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

from rlstudio.control.registry.blobs import Blobs
from rlstudio.control.store.sqlite_file import open_to_read
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import BundleError, CheckpointError, StorageError, UserError
from rlstudio.core.timestamps import timestamp
from rlstudio.delivery.bundle import Bundle
from rlstudio.storage.folder import Folder, ensure_directory, is_directory, temporary
from rlstudio.storage.output_file import written_whole
from rlstudio.storage.refusals import is_users_mistake
from rlstudio.storage.seal import sealed, unsealed
from rlstudio.storage.verified import MANIFEST, written
from rlstudio.storage.writers import CHUNK, Written, translated_os_errors

KIND, VERSION = "rlstudio-backup", 1
STORE = "store.db"
BUSY_SECONDS = 10.0
LARGEST_MANIFEST = 64 << 20
_MEMBER = re.compile(r"store\.db|registry/blobs/[0-9a-f]{64}/[\w.-]{1,64}")


class BackupReport(NamedTuple):
    path: Path
    created_at: str
    runs: int
    bundles: int
    size: int  # bytes


class _Member(NamedTuple):
    name: str
    facts: Written
    file: Path | None  # None: the store, which is in memory


def write_backup(workspace: Workspace, target: Path) -> BackupReport:
    """The store and its bundles as a new file, whole or not at all."""
    if os.path.lexists(target):
        raise UserError(f"{target}: is there already; name a new file")
    store, runs, digests = _copied_store(workspace)
    blobs = Blobs(workspace.state_dir / "registry" / "blobs")
    members = [_Member(STORE, Written(len(store), sha256(store).hexdigest()), None)]
    for digest in digests:
        bundle = _bundle(blobs, digest)
        manifest = (bundle.path / MANIFEST).read_bytes()
        facts = {**bundle.files, MANIFEST: Written(len(manifest), sha256(manifest).hexdigest())}
        prefix = f"registry/blobs/{digest}"
        members += [_Member(f"{prefix}/{name}", fact, bundle.path / name) for name, fact in facts.items()]
    listed = {member.name: {"size": member.facts.size, "sha256": member.facts.sha256} for member in members}
    created = timestamp()
    head = {"kind": KIND, "version": VERSION, "created_at": created, "runs": runs, "files": listed}
    try:
        with written_whole(target) as partial, translated_os_errors(target), partial.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            _write_tar(file, sealed(head), members, store)
            file.flush()
            os.fsync(file.fileno())
    except StorageError as error:
        raise UserError(str(error)) if is_users_mistake(error) else error from error
    return BackupReport(target, created, runs, len(digests), target.stat().st_size)


def _bundle(blobs: Blobs, digest: str) -> Bundle:
    """Every byte of it is verified."""
    try:
        return blobs.get(digest)
    except UserError as error:
        raise BundleError(
            f"{blobs.root / digest}: a version of the store is this bundle, and it is missing; put it back first"
        ) from error


def _copied_store(workspace: Workspace) -> tuple[bytes, int, list[str]]:
    """The store as the bytes of a file, how many runs it knows, and the bundles that its versions refer to."""
    file = _sqlite_file(workspace)
    if not file.exists():
        raise UserError(f"{file}: there is no store to back up; name where the runs lie with --runs-dir")
    # Never taken as it is: the copy in memory is what SQLite's online backup made.
    with closing(open_to_read(file, BUSY_SECONDS, lambda _: False)) as copy:
        tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"run", "model_version"} <= tables:
            raise UserError(f"{file}: is a store of an older RLStudio; bring it up to date with: rlctl migrate")
        digests = [digest for (digest,) in copy.execute("SELECT DISTINCT digest FROM model_version ORDER BY digest")]
        (runs,) = copy.execute("SELECT count(*) FROM run").fetchone()
        return copy.serialize(), runs, digests


def _sqlite_file(workspace: Workspace) -> Path:
    if workspace.store_file is None:
        raise UserError(
            "RLSTUDIO_DB: the store is a PostgreSQL database; back it up with pg_dump and put it back with pg_restore,"
            f" and copy {workspace.state_dir / 'registry'} after the dump: bundles never change"
        )
    return workspace.store_file


def _write_tar(file: IO[bytes], manifest: bytes, members: list[_Member], store: bytes) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, MANIFEST, len(manifest), BytesIO(manifest))
        for member in members:
            if member.file is None:
                _add(archive, member.name, member.facts.size, BytesIO(store))
            else:
                with member.file.open("rb") as source:
                    _add(archive, member.name, member.facts.size, source)


def _add(archive: tarfile.TarFile, name: str, size: int, source: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    archive.addfile(entry, source)


def restore_backup(workspace: Workspace, source: Path) -> BackupReport:
    """The store and the bundles of a backup where there are none yet: all of it, verified, or nothing."""
    target = _sqlite_file(workspace).parent
    if is_directory(target) and Folder(target, through_link=True).names():
        raise UserError(f"{target}: is not empty; restore into another place with --runs-dir, or move it away")
    ensure_directory(target.parent)
    above, part = Folder(target.parent, through_link=True), temporary("backup")
    above.make(part)
    try:
        report = _unpacked(source, above, part)
        if is_directory(target):
            with translated_os_errors(target):
                target.rmdir()
        above.rename(part, target.name)
        above.sync()
    finally:
        above.discard(part)
    return report


def _unpacked(source: Path, above: Folder, part: str) -> BackupReport:
    try:
        with translated_os_errors(source), source.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            head, expected = _manifest(archive, source)
            for name, entry in _following(archive, source, expected):
                _write_member(archive, entry, above, f"{part}/{name}", expected[name], f"{source}: {name}")
        above.sync(part)
    except tarfile.TarError as error:
        raise CheckpointError(f"{source}: is not a backup, or damaged: {error}; take another one") from error
    except StorageError as error:
        raise UserError(str(error)) if is_users_mistake(error) else error from error
    _check_store(above.path(f"{part}/{STORE}"), source)
    bundles = len({name.split("/")[2] for name in expected if name != STORE})
    return BackupReport(source, str(head["created_at"]), int(str(head["runs"])), bundles, source.stat().st_size)


def _manifest(archive: tarfile.TarFile, source: Path) -> tuple[dict[str, object], dict[str, Written]]:
    first = archive.next()
    stream = None if first is None or first.name != MANIFEST or not first.isreg() else archive.extractfile(first)
    if first is None or stream is None or first.size > LARGEST_MANIFEST:
        raise CheckpointError(f"{source}: does not begin with {MANIFEST}; is it a file of `rlctl backup FILE`?")
    head = unsealed(stream.read(), f"{source}: {MANIFEST}")
    if (head.get("kind"), head.get("version")) != (KIND, VERSION):
        raise CheckpointError(f"{source}: is {head.get('kind')} {head.get('version')}, not {KIND} {VERSION}")
    try:
        files = {str(name): written(entry) for name, entry in head["files"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: {MANIFEST}: not a list of files: {error}") from error
    if STORE not in files or not all(map(_MEMBER.fullmatch, files)):
        raise CheckpointError(f"{source}: {MANIFEST}: names files that no backup has; take another one")
    return head, files


def _following(
    archive: tarfile.TarFile, source: Path, expected: dict[str, Written]
) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """Every other member, each once, and all that the manifest lists."""
    missing = dict(expected)
    while (entry := archive.next()) is not None:
        if not entry.isreg() or missing.pop(entry.name, None) is None or entry.size != expected[entry.name].size:
            raise CheckpointError(f"{source}: {entry.name!a}: is not what the manifest lists; take another backup")
        yield entry.name, entry
    if missing:
        raise CheckpointError(f"{source}: {min(missing)}: missing; take another backup")


def _write_member(
    archive: tarfile.TarFile, entry: tarfile.TarInfo, above: Folder, name: str, expected: Written, label: str
) -> None:
    stream = archive.extractfile(entry)
    assert stream is not None  # a regular file
    ensure_directory(above.path(name).parent)
    with above.stream(name) as target:
        while data := stream.read(CHUNK):
            target.write(data)
        if target.finish() == expected:
            return
        raise CheckpointError(f"{label}: its sha256 is not the one in the manifest; take another backup")


def _check_store(file: Path, source: Path) -> None:
    try:
        with closing(sqlite3.connect(file)) as connection:
            (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
    except sqlite3.DatabaseError as error:
        answer = str(error)
    if answer != "ok":
        raise CheckpointError(f"{source}: {STORE}: {answer}; take another backup")
