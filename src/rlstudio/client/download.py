"""A file of the server, written here whole or not at all."""

from __future__ import annotations

from pathlib import Path

from rlstudio.client.connection import ServerConnection
from rlstudio.storage.output_file import written_whole
from rlstudio.storage.writers import translated_os_errors


def save(connection: ServerConnection, path: str, target: Path) -> Path:
    """`path`: below `/api/v1`."""
    with (
        connection.stream(path) as response,
        written_whole(target) as partial,
        translated_os_errors(target),
        partial.open("wb") as file,
    ):
        for data in response.iter_bytes():
            file.write(data)
    return target
