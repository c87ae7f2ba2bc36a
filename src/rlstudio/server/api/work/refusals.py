"""What went wrong in a process beside the server, as data that the server answers with."""

from __future__ import annotations

import re
import sys
import traceback
from http import HTTPStatus
from typing import Any

from rlstudio.core.errors import ConfigError, RLStudioError, message_of
from rlstudio.server.http.problems import RequestRefused, refusal_of, without_paths

PLACE = re.compile(r"(?P<source>[^:]*):(?P<line>\d+):(?P<column>\d+): (?:(?P<field>[^\s:]+): )?(?P<message>.*)")
FIELD = re.compile(r"(?:(?:experiment|sweep|override [^:]*): )?(?P<field>[\w.\[\]-]+): (?P<message>.*)")


def refusal(error: BaseException) -> dict[str, Any]:
    """Status, text and problems; a defect is printed to the log with its traceback."""
    if isinstance(error, Exception):
        refused = refusal_of(error)
        if refused is not None:
            problems = problems_of(error) if isinstance(error, ConfigError) else refused.problems
            return {
                "status": int(refused.status),
                "detail": refused.detail,
                "problems": problems,
                "error": refused.error,
            }
    traceback.print_exception(error, file=sys.stderr)
    detail = without_paths(f"{type(error).__name__}: {message_of(error)}")
    return {"status": int(HTTPStatus.UNPROCESSABLE_ENTITY), "detail": detail, "problems": [], "error": ""}


def problems_of(error: RLStudioError | RequestRefused) -> list[dict[str, object]]:
    """One problem for each line of a refused configuration: `experiment:3:5: train.clipp: unknown key`."""
    if isinstance(error, RequestRefused):
        return [dict(problem) for problem in error.problems]
    return [_problem(line) for line in without_paths(str(error)).splitlines()]


def _problem(line: str) -> dict[str, object]:
    if placed := PLACE.fullmatch(line):
        place = {"line": int(placed["line"]), "column": int(placed["column"])}
        return {"field": placed["field"] or "", "message": placed["message"], **place}
    if named := FIELD.fullmatch(line):
        return {"field": named["field"], "message": named["message"]}
    return {"field": "", "message": line}
