"""Refusals of a server, raised as the exceptions that they are locally."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from rlstudio.core import errors
from rlstudio.core.errors import RLStudioError, UserError

LONGEST_LINE = 2000


class ServerUnreachable(RLStudioError):
    """No server answers there, or not one of RLStudio."""

    exit_code = 69


class NotAllowed(UserError):
    """The token is unknown, or does not permit this."""


_BY_STATUS: dict[int, type[RLStudioError]] = {
    HTTPStatus.UNAUTHORIZED: NotAllowed,
    HTTPStatus.FORBIDDEN: NotAllowed,
    HTTPStatus.NOT_FOUND: errors.RunNotFound,
    HTTPStatus.CONFLICT: errors.Conflict,
    HTTPStatus.PRECONDITION_FAILED: errors.Conflict,
    HTTPStatus.TOO_MANY_REQUESTS: errors.StoreBusy,
    HTTPStatus.SERVICE_UNAVAILABLE: errors.StoreBusy,
    HTTPStatus.INSUFFICIENT_STORAGE: errors.StorageError,
}
_BY_NAME = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RLStudioError)
}


def refusal(status: int, body: bytes, server: str) -> RLStudioError:
    """The exception for an answer that is none of success."""
    problem = _problem(body)
    detail = problem.get("detail")
    if status == HTTPStatus.UNAUTHORIZED:  # what the server says is for who writes requests by hand
        return NotAllowed(
            f"server {server}: the token is not known there, has expired or was revoked; who runs the server gives out"
            " another"
        )
    if not isinstance(detail, str) or not detail:
        return ServerUnreachable(f"server {server}: answered {status}, and not as RLStudio does; is it the right port?")
    kind = _BY_NAME.get(str(problem.get("error"))) or _BY_STATUS.get(status)
    if kind is None:
        kind = UserError if status < 500 else RLStudioError
    return kind(_lines(detail, problem.get("problems")))


def of_problem(problem: dict[str, Any], server: str) -> RLStudioError:
    """The exception for the problem that an operation ended with."""
    return refusal(int(problem.get("status", 500)), json.dumps(problem).encode(), server)


def _problem(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _lines(detail: str, problems: object) -> str:
    """One line, or for a configuration one for each problem, with its place."""
    listed = [problem for problem in problems if isinstance(problem, dict)] if isinstance(problems, list) else []
    lines = [_line(problem) for problem in listed if problem.get("message")]
    return "\n".join(lines) if len(lines) > 1 else " ".join(detail.split())[:LONGEST_LINE]


def _line(problem: dict[str, Any]) -> str:
    place = ":".join(str(problem[part]) for part in ("line", "column") if part in problem)
    parts = [place, str(problem.get("field") or ""), " ".join(str(problem["message"]).split())]
    return ": ".join(part for part in parts if part)[:LONGEST_LINE]
