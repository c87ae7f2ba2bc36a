"""Signing in: from a token to the cookie of a browser, and out again."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from rlstudio.server.http.access import Access
from rlstudio.server.http.callers import PUBLIC
from rlstudio.server.http.guard import LOGIN

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in to RLStudio</title></head>
<body>
<h1>Sign in to RLStudio</h1>
<p>{message}</p>
<form method="post" action="{action}">
<label>Token <input name="token" type="password" autocomplete="off" required autofocus></label>
<button>Sign in</button>
</form>
<p>A token comes from <code>{add}</code>; <code>{serve}</code> prints an address that signs in once. If you have
just used it: <a href="/">go on</a>.</p>
</body>
</html>
"""
ADD, SERVE = "rlctl token add NAME", "rlctl serve"
FRESH, WRONG = "This page needs a token.", "That token is unknown, used up, revoked or expired."


def login_routes(access: Access) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get(LOGIN, dependencies=[PUBLIC])
    async def open_address(request: Request) -> Response:
        token = request.query_params.get("token")
        return _page(FRESH, HTTPStatus.OK) if token is None else _begin(access, request, token)

    @router.post(LOGIN, dependencies=[PUBLIC])
    async def send_form(request: Request) -> Response:
        fields = parse_qs((await request.body()).decode("latin-1"), max_num_fields=4)
        return _begin(access, request, fields.get("token", [""])[0].strip())

    @router.post("/logout", dependencies=[PUBLIC])
    async def sign_out(request: Request) -> Response:
        access.end_session(request.headers.get("Cookie"))
        answer = RedirectResponse(LOGIN, HTTPStatus.SEE_OTHER)
        answer.delete_cookie(access.cookie, path="/", httponly=True, samesite="strict")
        return answer

    return router


def _begin(access: Access, request: Request, token: str) -> Response:
    value = access.begin_session(token)
    if value is None:
        return _page(WRONG, HTTPStatus.UNAUTHORIZED)
    answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    is_secure = request.url.scheme == "https"
    answer.set_cookie(access.cookie, value, path="/", httponly=True, samesite="strict", secure=is_secure)
    return answer


def _page(message: str, status: HTTPStatus) -> HTMLResponse:
    return HTMLResponse(PAGE.format(message=escape(message), action=LOGIN, add=ADD, serve=SERVE), status)
