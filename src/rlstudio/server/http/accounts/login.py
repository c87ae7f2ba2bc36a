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
<title>Sign in to RLStudio</title><link rel="stylesheet" href="{style}"></head>
<body>
<main>
<h1>Sign in to RLStudio</h1>
<p>{message}</p>
<form method="post" action="{action}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off" required autofocus>
<button>Sign in</button>
</form>
<p class="hint">A token comes from <code>{add}</code>; <code>{serve}</code> prints an address that signs in once. If
you have just used it: <a href="/">go on</a>.</p>
</main>
</body>
</html>
"""
STYLE = """:root { color-scheme: light dark; --back: #f7f7f5; --surface: #fff; --line: #cfcec8; --text: #1b1d21;
  --soft: #5a5e66; --accent: #2f56c6; --on-accent: #fff; }
@media (prefers-color-scheme: dark) { :root { --back: #0f1113; --surface: #16181b; --line: #3b4048; --text: #e7e8ea;
  --soft: #a5aab3; --accent: #86a5ff; --on-accent: #0d1324; } }
* { box-sizing: border-box; }
body { display: grid; place-items: center; min-height: 100dvh; margin: 0; padding: 16px; background: var(--back);
  color: var(--text); font: 400 14px/1.5 system-ui, sans-serif; }
main { width: min(400px, 100%); padding: 28px; border: 1px solid var(--line); border-radius: 11px;
  background: var(--surface); }
h1 { margin: 0 0 4px; font-size: 19px; }
p { margin: 0; color: var(--soft); }
form { display: grid; grid-template-columns: 1fr auto; gap: 6px 8px; margin: 20px 0; }
label { grid-column: 1 / -1; font-size: 12px; font-weight: 600; }
input, button { height: 36px; padding: 0 12px; border: 1px solid var(--line); border-radius: 7px; font: inherit; }
input { min-width: 0; background: var(--back); color: var(--text); }
button { border-color: var(--accent); background: var(--accent); color: var(--on-accent); font-weight: 550;
  cursor: pointer; }
a { color: var(--accent); }
code { font: 0.93em ui-monospace, monospace; color: var(--text); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.hint { font-size: 13px; }
"""
STYLE_PATH = "/login.css"
ADD, SERVE = "rlctl token add NAME", "rlctl serve"
FRESH, WRONG = "This page needs a token.", "That token is unknown, used up, revoked or expired."


def login_routes(access: Access) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get(LOGIN, dependencies=[PUBLIC])
    async def open_address(request: Request) -> Response:
        token = request.query_params.get("token")
        return _page(FRESH, HTTPStatus.OK) if token is None else _begin(access, request, access.begin_once(token))

    @router.get(STYLE_PATH, dependencies=[PUBLIC])
    async def style() -> Response:
        return Response(STYLE, media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    @router.post(LOGIN, dependencies=[PUBLIC])
    async def send_form(request: Request) -> Response:
        fields = parse_qs((await request.body()).decode("latin-1"), max_num_fields=4)
        return _begin(access, request, access.begin_session(fields.get("token", [""])[0].strip()))

    @router.post("/logout", dependencies=[PUBLIC])
    async def sign_out(request: Request) -> Response:
        access.end_session(request.headers.get("Cookie"))
        answer = RedirectResponse(LOGIN, HTTPStatus.SEE_OTHER)
        answer.delete_cookie(access.cookie, path="/", httponly=True, samesite="strict")
        return answer

    return router


def _begin(access: Access, request: Request, value: str | None) -> Response:
    if value is None:
        return _page(WRONG, HTTPStatus.UNAUTHORIZED)
    answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    is_secure = request.url.scheme == "https"
    answer.set_cookie(access.cookie, value, path="/", httponly=True, samesite="strict", secure=is_secure)
    return answer


def _page(message: str, status: HTTPStatus) -> HTMLResponse:
    return HTMLResponse(
        PAGE.format(message=escape(message), action=LOGIN, style=STYLE_PATH, add=ADD, serve=SERVE), status
    )
