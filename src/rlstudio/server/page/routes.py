"""The built dashboard, below `/`. Its source is `web/`; what is built lies in `static/` beside this file.

/               index.html, asked for anew each time
/favicon.svg
/assets/NAME    named after its content, so a browser keeps it for good
"""

from __future__ import annotations

import re
from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from rlstudio.core.errors import StorageError
from rlstudio.server.http.callers import Reader
from rlstudio.server.http.problems import RequestRefused
from rlstudio.storage.folder import Folder

STATIC = Path(__file__).parent / "static"
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
FOR_GOOD = "private, max-age=31536000, immutable"
NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>RLStudio</title></head>
<body><h1>The dashboard is not built</h1>
<p>Run <code>make web</code> where RLStudio is checked out, and open this page again. The API answers below
<code>/api/v1</code>.</p></body></html>
"""


def page_routes(static: Path = STATIC) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    files = Folder(static)

    def file(name: str, cache: str) -> Response:
        kind = TYPES.get(Path(name).suffix)
        try:
            data = files.read(name) if kind is not None else None
        except StorageError:  # a link or a folder, which the build makes none of
            data = None
        if data is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "no such file of the dashboard")
        return Response(data, media_type=kind, headers={"Cache-Control": cache})

    @router.get("/")
    def index(caller: Reader) -> Response:
        if not is_built(static):
            return HTMLResponse(NOT_BUILT, HTTPStatus.SERVICE_UNAVAILABLE)
        return file("index.html", "no-cache")

    @router.get("/favicon.svg")
    def icon(caller: Reader) -> Response:
        return file("favicon.svg", "private, max-age=3600")

    @router.get("/assets/{name}")
    def asset(caller: Reader, name: str) -> Response:
        if not NAME.fullmatch(name):
            raise RequestRefused(HTTPStatus.NOT_FOUND, "no such file of the dashboard")
        return file(f"assets/{name}", FOR_GOOD)

    return router


def is_built(static: Path = STATIC) -> bool:
    return (static / "index.html").is_file()
