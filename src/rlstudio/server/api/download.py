"""A file as the body of an answer: an attachment whose kind no browser guesses, in parts where a `Range` asks for one.
It is opened through `Folder`, which follows no link, and read from that descriptor alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from http import HTTPStatus
from io import BufferedReader
from mimetypes import guess_type
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from rlstudio.server.http.problems import RequestRefused
from rlstudio.storage.folder import Folder

CHUNK = 1 << 16
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def type_of(name: str) -> str:
    return guess_type(name)[0] or "application/octet-stream"


def attachment(folder: Folder, name: str, request: Request, called: str = "") -> Response:
    """`name` in `folder`; `called`: what a browser names it."""
    file = folder.open(name)
    size = os.fstat(file.fileno()).st_size
    label = called or name.rpartition("/")[2]
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(label, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Accept-Ranges": "bytes",
        "Cache-Control": "no-store",
    }
    # These files have no ETag, so `If-Range` cannot fit: parts of two states of a file would be put together.
    wanted = None if "if-range" in request.headers else request.headers.get("range")
    part = None if wanted is None else _part(wanted, size)
    if wanted is not None and part is None and RANGE.fullmatch(wanted) and wanted != "bytes=-":
        file.close()
        raise RequestRefused(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"range {wanted!a}: the file has {size} bytes",
            headers={"Content-Range": f"bytes */{size}"},
        )
    if part is None:
        headers["Content-Length"] = str(size)
        return StreamingResponse(_bytes(file, 0, size), HTTPStatus.OK, headers, type_of(label))
    start, end = part
    headers |= {"Content-Length": str(end - start), "Content-Range": f"bytes {start}-{end - 1}/{size}"}
    return StreamingResponse(_bytes(file, start, end), HTTPStatus.PARTIAL_CONTENT, headers, type_of(label))


def _part(wanted: str, size: int) -> tuple[int, int] | None:
    """The one range that is asked for, from and up to; None for several, for another unit and for none in the file."""
    match = RANGE.fullmatch(wanted)
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    return (start, end) if start < end else None


def _bytes(file: BufferedReader, start: int, end: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        left = end - start
        while left > 0 and (data := file.read(min(CHUNK, left))):
            left -= len(data)
            yield data
