"""Blobs: bundles by the hash of their manifest, read-only. What is there once never changes and never moves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlstudio.core.errors import BundleError, StorageError, UserError
from rlstudio.delivery.bundle import Bundle, open_bundle
from rlstudio.storage.abandoned import sweep_abandoned
from rlstudio.storage.folder import Folder, ensure_directory, temporary
from rlstudio.storage.verified import MANIFEST

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blobs:
    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, source: Path) -> str:
        """Copy a bundle in, verified before and after; returns its digest. One that is there already stays, unless it
        is damaged: then this one takes its place."""
        bundle = open_bundle(source)
        ensure_directory(self.root)
        folder = Folder(self.root)
        if folder.kind(bundle.sha256) is not None and not self._is_whole(bundle.sha256):
            folder.remove_tree(bundle.sha256)
        if folder.kind(bundle.sha256) is None:
            self._copy_in(folder, bundle)
        folder.sync()  # also for a bundle that was there: the process that put it may have died before this
        return self.get(bundle.sha256).sha256

    def _is_whole(self, digest: str) -> bool:
        try:
            self.get(digest)
        except (BundleError, UserError):
            return False
        return True

    def _copy_in(self, folder: Folder, bundle: Bundle) -> None:
        with self.unfinished() as part:
            for name in (*bundle.files, MANIFEST):
                with Folder(bundle.path, through_link=True).open(name) as file:
                    folder.copy(f"{part.name}/{name}", file, os.fstat(file.fileno()).st_size)
            folder.sync(part.name)
            if open_bundle(part).sha256 != bundle.sha256:
                raise BundleError(f"{bundle.path}: changed while it was copied; try again")
            for name in (*bundle.files, MANIFEST):
                (part / name).chmod(0o400)
            try:
                folder.rename(part.name, bundle.sha256)
            except StorageError:
                if folder.kind(bundle.sha256) is None:
                    raise
                # Otherwise another process put the same bundle there meanwhile.

    @contextmanager
    def unfinished(self) -> Iterator[Path]:
        """A folder for what is on its way in, gone afterwards; what killed processes left goes too."""
        ensure_directory(self.root)
        folder, part = Folder(self.root), temporary()
        sweep_abandoned(folder)
        folder.make(part)
        try:
            yield folder.path(part)
        finally:
            folder.discard(part)

    def get(self, digest: str) -> Bundle:
        """The bundle, every byte verified; BundleError names the file where one does not."""
        if not _DIGEST.fullmatch(digest):  # it comes from a row of the store, which others may have written
            raise BundleError(f"{digest!r}: is not the name of a bundle; the store was tampered with")
        bundle = open_bundle(self.root / digest)
        if bundle.sha256 != digest:
            raise BundleError(f"{self.root / digest}: holds another bundle than its name says")
        return bundle

    def collect(self, referred: set[str]) -> list[str]:
        """Remove what no version refers to; returns the digests that went."""
        if not self.root.is_dir():
            return []
        folder = Folder(self.root)
        going = [name for name in folder.names() if len(name) == 64 and name not in referred]
        for name in going:
            folder.remove_tree(name)
        return going
