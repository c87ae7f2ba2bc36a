"""Remove what killed processes left. What other processes are building right now looks the same, but is younger."""

from __future__ import annotations

import contextlib
import time

from rlstudio.storage.folder import TEMPORARY, Folder

ABANDONED_SECONDS = 3600  # run folders and bundles are built in seconds at most


def sweep_abandoned(folder: Folder, owner: str = "") -> None:
    """Remove unfinished entries of a folder that no lease guards; with `owner`, only those it named (`temporary`)."""
    prefix = f"{TEMPORARY}{owner}-" if owner else TEMPORARY
    for name in folder.names():
        if name.startswith(prefix):
            with contextlib.suppress(FileNotFoundError):  # finished this very moment
                if time.time() - folder.path(name).lstat().st_mtime > ABANDONED_SECONDS:
                    folder.discard(name)
