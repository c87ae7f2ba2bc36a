"""Blobs: bundles by the hash of their manifest, read-only. What is there once never changes and never moves."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rlstudio.core.errors import BundleError, StorageError
from rlstudio.experiment.bundle import Bundle, open_bundle
from rlstudio.experiment.files import Folder, ensure_directory, temporary
from rlstudio.experiment.manifest import MANIFEST


class Blobs:
    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, source: Path) -> str:
        """Copy a bundle in, verified before and after; returns its digest. One that is there already stays."""
        bundle = open_bundle(source)
        ensure_directory(self.root)
        folder = Folder(self.root)
        if folder.kind(bundle.sha256) is not None:
            self.get(bundle.sha256)
            return bundle.sha256
        part = temporary()
        try:
            folder.make(part)
            for name in (*bundle.files, MANIFEST):
                with Folder(source).open(name) as file:
                    folder.copy(f"{part}/{name}", file, os.fstat(file.fileno()).st_size)
            folder.sync(part)
            copied = open_bundle(self.root / part)
            if copied.sha256 != bundle.sha256:
                raise BundleError(f"{source}: changed while it was copied; try again")
            for name in (*bundle.files, MANIFEST):
                (self.root / part / name).chmod(0o400)
            with suppress(StorageError):  # another process put the same bundle there this very moment
                folder.rename(part, bundle.sha256)
                folder.sync()
        finally:
            folder.discard(part)
        return self.get(bundle.sha256).sha256

    def get(self, digest: str) -> Bundle:
        """The bundle, every byte verified; BundleError names the file where one does not."""
        bundle = open_bundle(self.root / digest)
        if bundle.sha256 != digest:
            raise BundleError(f"{self.root / digest}: holds another bundle than its name says; restore it")
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
