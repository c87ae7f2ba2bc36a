"""Errors as `application/problem+json` (RFC 9457). They name the field; they hold no path of this machine and no
traceback."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NotRequired, TypedDict

from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from rlstudio.core.errors import (
    Changed,
    Conflict,
    RLStudioError,
    RunBusy,
    RunNotFound,
    StorageError,
    StoreBusy,
    UserError,
)

MEDIA_TYPE = "application/problem+json"
LONGEST_DETAIL = 2000
UNPARSED = "There was an error parsing the body"
"""What FastAPI says of a body that ended its parser in any other way than by a misplaced character."""


# The first class that fits decides. What else RLStudio refuses lies in the state of things, not in the request.
STATUS_OF: tuple[tuple[type[RLStudioError], HTTPStatus], ...] = (
    (RunNotFound, HTTPStatus.NOT_FOUND),
    (Changed, HTTPStatus.PRECONDITION_FAILED),
    (Conflict, HTTPStatus.CONFLICT),
    (RunBusy, HTTPStatus.CONFLICT),
    (UserError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (StoreBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (StorageError, HTTPStatus.INSUFFICIENT_STORAGE),
    (RLStudioError, HTTPStatus.CONFLICT),
)
_ABSOLUTE_PATH = re.compile(r"""(?<![\w/.:])/(?!api/)(?:[^\s/:,;'"`()]+/)+([^\s/:,;'"`()]+)""")


class FieldProblem(TypedDict):
    field: str
    message: str
    line: NotRequired[int]
    column: NotRequired[int]


class ProblemDocument(BaseModel):
    """What every error answer holds."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    problems: list[dict[str, str | int]] = []
    error: str = Field("", description="What it is called in Python and where commands have an exit code for it.")


class RequestRefused(Exception):
    """The answer to a request that is not accepted. `closes`: what is left of its body is not read."""

    def __init__(
        self,
        status: int,
        detail: str,
        problems: Sequence[FieldProblem] = (),
        *,
        closes: bool = False,
        headers: Mapping[str, str] | None = None,
        error: str = "",
    ) -> None:
        super().__init__(detail)
        self.error = error  # the class of ours that it is
        self.status, self.detail, self.problems, self.closes = HTTPStatus(status), detail, list(problems), closes
        self.headers = dict(headers or {})

    def document(self) -> dict[str, object]:
        listed: dict[str, object] = {"problems": self.problems} if self.problems else {}
        kind = {"type": "about:blank", "title": self.status.phrase, "status": int(self.status)}
        named = {"error": self.error} if self.error else {}
        return {**kind, "detail": _printable(self.detail)[:LONGEST_DETAIL], **listed, **named}

    def response(self) -> Response:
        headers = dict(self.headers)
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers.setdefault("WWW-Authenticate", "Bearer")
        if self.closes:
            headers["Connection"] = "close"
        return Response(json.dumps(self.document()).encode(), int(self.status), headers, MEDIA_TYPE)


def refusal_of(error: Exception) -> RequestRefused | None:
    """What a client is told of an error that a route raised; None for a defect of ours."""
    match error:
        case RequestRefused():
            return error
        case RequestValidationError():
            problems = [_field_problem(finding) for finding in error.errors()]
            detail = "; ".join(f"{problem['field']}: {problem['message']}" for problem in problems)
            return RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, detail, problems)
        case HTTPException(status_code=400, detail=detail) if detail == UNPARSED:
            message = "is no JSON that can be read: not UTF-8, nested too deep, or with a number of thousands of digits"
            return RequestRefused(HTTPStatus.BAD_REQUEST, f"body: {message}", [{"field": "body", "message": message}])
        case HTTPException():
            return RequestRefused(error.status_code, str(error.detail), headers=error.headers)
        case RLStudioError():
            status = next(status for kind, status in STATUS_OF if isinstance(error, kind))
            name = next(base.__name__ for base in type(error).__mro__ if base.__module__ == RLStudioError.__module__)
            return RequestRefused(status, without_paths(str(error)), error=name)
        case _:
            return None


def without_paths(text: str) -> str:
    """Messages of the command line name files by their whole path; who asks from elsewhere gets the last part."""
    return _ABSOLUTE_PATH.sub(r".../\1", text)


def _field_problem(finding: Mapping[str, object]) -> FieldProblem:
    location = finding["loc"]
    parts = [str(part)[:80] for part in location] if isinstance(location, tuple) else []
    if finding["type"] == "json_invalid":
        reason = dict(finding.get("ctx", {})).get("error", "")  # type: ignore[call-overload]
        return {"field": "body", "message": f"is no JSON: {reason} at character {parts[-1]}"}
    # The first part says where it stood (body, query, path, header); a body as a whole has no other.
    return {"field": _printable(".".join(parts[1:] or parts)), "message": _printable(str(finding["msg"]))}


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]
