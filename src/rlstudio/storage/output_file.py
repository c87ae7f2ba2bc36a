"""A file the user asked for by name (picture, video): checked before the work starts, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rlstudio.core.errors import StorageError, UserError
from rlstudio.storage.folder import is_directory, temporary
from rlstudio.storage.writers import translated_os_errors


def output_path(path: str | Path, suffixes: Sequence[str]) -> Path:
    """The path, where its suffix is one of those that can be written."""
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise UserError(f"{target}: the name must end with {' or '.join(suffixes)}")
    try:
        is_folder = is_directory(target)
    except StorageError as error:
        raise UserError(str(error)) from error
    if is_folder:
        raise UserError(f"{target}: is a folder; give a file name")
    return target


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A name beside `target` to write to; it becomes `target` at the end, and nothing remains of it after a failure."""
    with translated_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(temporary() + target.suffix)
    try:
        yield partial
        with translated_os_errors(target):
            os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def write_new(target: Path, text: str) -> None:
    """A text file that is not there yet; one that is there is never replaced."""
    with translated_os_errors(target):
        is_there = os.path.lexists(target)
    if is_there:
        raise UserError(f"{target}: is there already; name another file")
    with written_whole(target) as partial:
        partial.write_text(text, encoding="utf-8")
