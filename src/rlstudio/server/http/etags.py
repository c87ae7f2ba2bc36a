"""ETag and If-Match: a change that was decided on an older state of a thing is refused, not made.

etag = etag_of(document)
check_match(request, etag)                 # 412 where the caller saw another state
response.headers["ETag"] = etag
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus

from fastapi import Request

from rlstudio.server.http.problems import RequestRefused


def etag_of(document: Mapping[str, object]) -> str:
    """Of everything that the document says. Two processes that show the same thing give the same one."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)
    return f'"{sha256(text.encode()).hexdigest()[:32]}"'


def check_match(request: Request, etag: str) -> None:
    """For a change: with `If-Match`, the thing must still be as the caller saw it."""
    wanted = request.headers.get("If-Match")
    if wanted is not None and etag not in (tags := _tags(wanted)) and "*" not in tags:
        raise RequestRefused(
            HTTPStatus.PRECONDITION_FAILED, f"If-Match: it has changed since; it is {etag} now", headers={"ETag": etag}
        )


def is_known(request: Request, etag: str) -> bool:
    """For a look: whether the caller has this state already, by `If-None-Match`; then the answer is 304."""
    known = request.headers.get("If-None-Match")
    return known is not None and (etag in (tags := _tags(known)) or "*" in tags)


def _tags(header: str) -> set[str]:
    """Weak ones count as what they stand for: ours are all strong."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
