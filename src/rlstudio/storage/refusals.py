"""Why the operating system refused: what is behind a StorageError."""

from __future__ import annotations

import errno

from rlstudio.core.errors import StorageError


def errno_of(error: StorageError) -> int | None:
    """The operating system's number for the refusal; None where it did not come from there."""
    return error.__cause__.errno if isinstance(error.__cause__, OSError) else None


def is_users_mistake(error: StorageError) -> bool:
    """A place that cannot be written to, rather than a disk that fails."""
    mistakes = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG)
    return errno_of(error) in mistakes
