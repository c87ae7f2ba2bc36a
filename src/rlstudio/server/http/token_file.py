"""A file with the secret of a token, for who calls from this machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rlstudio.core.errors import StorageError, UserError
from rlstudio.storage.writers import translated_os_errors


def write_token(path: Path, token: str) -> None:
    """Readable by the owner only. An old file is removed, not written into: it may be a link, or readable by others."""
    try:
        with translated_os_errors(path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(token + "\n")
    except StorageError as error:
        raise UserError(f"--token-file: {error}") from error
