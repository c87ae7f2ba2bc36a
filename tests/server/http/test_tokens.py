"""Named tokens, sessions of browsers, and the form that begins one."""

from __future__ import annotations

import stat
from types import SimpleNamespace

import pytest
from fastapi import APIRouter, Request

from rlstudio.core.errors import Conflict, StorageError, UnknownName, UserError
from rlstudio.server.http.access import ONE_TIME_SECONDS, Access
from rlstudio.server.http.accounts.login import login_routes
from rlstudio.server.http.accounts.routes import account_routes
from rlstudio.server.http.callers import Actor, Caller, Reader
from rlstudio.server.http.records.audit import AuditLog
from rlstudio.server.http.roles import Role
from rlstudio.server.http.sessions import SESSION_SECONDS, BrowserSessions
from rlstudio.server.http.tokens import DAY, Tokens
from support.http_app import HOST, ask, made


@pytest.fixture
def clock():
    return SimpleNamespace(now=1_800_000_000.0)


@pytest.fixture
def tokens(tmp_path, clock):
    return Tokens(tmp_path, lambda: clock.now)


def test_a_token_counts_until_it_is_revoked_or_expires_in_every_process(tokens, tmp_path, clock):
    token, secret = tokens.add("laptop", Role.ACT, days=1)
    elsewhere = Tokens(tmp_path, lambda: clock.now)
    assert elsewhere.find(secret) == token
    assert elsewhere.find(secret[:-1]) is None
    clock.now += DAY
    assert elsewhere.find(secret) is None
    _, lasting = tokens.add("laptop", Role.READ)
    assert elsewhere.find(lasting).role == Role.READ
    tokens.revoke("laptop")
    assert elsewhere.find(lasting) is None
    assert [token.state(clock.now) for token in tokens.listed()] == ["expired", "revoked"]


def test_s7_no_secret_ships_and_none_is_kept(tokens, tmp_path):
    """Default credentials (S7): there is no token until one is made; the file has hashes, for its owner alone."""
    assert tokens.listed() == []
    secrets = {tokens.add(name, Role.READ)[1] for name in ("a", "b")}
    assert len(secrets) == 2
    assert all(len(secret) > 40 for secret in secrets)
    file = tmp_path / "server/tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(secret in file.read_text() for secret in secrets)


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x" * 65, "a\n", "ä"])
def test_names_of_tokens(tokens, name):
    with pytest.raises(UserError, match=r"^name: "):
        tokens.add(name, Role.READ)


@pytest.mark.parametrize("name", ["operator", "token-file", "rlctl"])
def test_no_token_is_called_what_the_audit_log_calls_others(tokens, name):
    with pytest.raises(UserError, match=f"^name: {name} is what the server calls"):
        tokens.add(name, Role.READ)


def test_mistakes_name_the_field(tokens, tmp_path):
    tokens.add("laptop", Role.READ)
    with pytest.raises(Conflict, match="laptop is active already"):
        tokens.add("laptop", Role.ACT)
    with pytest.raises(UnknownName, match="did you mean laptop"):
        tokens.revoke("lapptop")
    for days in (0, -1, 1e6, float("nan")):
        with pytest.raises(UserError, match=r"^expires_days: "):
            tokens.add("other", Role.READ, days)
    (tmp_path / "server/tokens.json").write_text("{")
    with pytest.raises(StorageError, match="is not a list of tokens"):
        tokens.find("x")


@pytest.fixture
def access(tokens, clock):
    return Access(tokens, clock=lambda: clock.now)


@pytest.fixture
def app(access, tokens, tmp_path):
    router = APIRouter()

    @router.get("/me")
    def me(caller: Reader):
        return caller.name

    @router.get("/sent")
    def sent(caller: Reader, request: Request):
        return request.headers.get("Cookie")

    @router.post("/change")
    def change(caller: Actor):
        return caller.name

    routes = account_routes("/api/v1", tokens, AuditLog(tmp_path))
    return made(router, login_routes(access), routes, access=access)


def signed_in(answer):
    cookie = answer.headers["set-cookie"]
    assert {part.strip() for part in cookie.split(";")[1:]} == {"HttpOnly", "Path=/", "SameSite=strict"}
    return [("cookie", cookie.split(";")[0])]


def test_the_address_of_the_terminal_signs_in_once(app, access, clock):
    token = access.one_time_token()
    answer = ask(app, "GET", f"/login?token={token}", None)
    assert (answer.status, answer.headers["location"], answer.headers["cache-control"]) == (303, "/", "no-store")
    cookie = signed_in(answer)
    assert ask(app, "GET", "/me", None, headers=cookie).json == "operator"
    assert ask(app, "GET", f"/login?token={token}", None).status == 401
    assert ask(app, "GET", "/me", token).status == 401
    clock.now += SESSION_SECONDS + 1
    assert ask(app, "GET", "/me", None, headers=cookie).status == 401
    late = access.one_time_token()
    clock.now += ONE_TIME_SECONDS
    assert ask(app, "GET", f"/login?token={late}", None).status == 401


def test_the_form_takes_a_token_and_a_session_ends_with_it(app, tokens):
    _, secret = tokens.add("laptop", Role.READ)
    form = [("content-type", "application/x-www-form-urlencoded")]
    assert ask(app, "POST", "/login", None, b"token=wrong", form).status == 401
    cookie = signed_in(ask(app, "POST", "/login", None, f"token={secret}".encode(), form))
    assert ask(app, "GET", "/me", None, headers=cookie).json == "laptop"
    assert ask(app, "POST", "/change", None, headers=cookie).status == 403
    tokens.revoke("laptop")
    assert ask(app, "GET", "/me", None, headers=cookie).status == 401


@pytest.mark.parametrize("other", ['prefs={"a":1}', "a[b]=c", "a b", "", "=", 'x="' + "\\" * 15_000 + '"'])
def test_what_other_servers_leave_in_the_browser_is_passed_over(app, access, other):
    """Cookies belong to a host, and a host has many ports."""
    ((name, cookie),) = signed_in(ask(app, "GET", f"/login?token={access.one_time_token()}", None))
    for both in (f"{other}; {cookie}", f"{cookie}; {other}", f"{other};{cookie};{other}"):
        answer = ask(app, "GET", "/sent", None, headers=[(name, both)])
        assert answer.status == 431 if len(both) > 16_384 else answer.json == cookie  # no route parses the others
    assert ask(app, "GET", "/me", None, headers=[(name, f"{other}; x{cookie}")]).status == 401


def test_a_cookie_that_another_server_tosses_in_signs_nobody_out(app, access):
    """One of our name with a longer path is sent before ours; the first of them was the only one that was read."""
    ((name, cookie),) = signed_in(ask(app, "GET", f"/login?token={access.one_time_token()}", None))
    tossed = "; ".join(["rlstudio_session=", *(f"rlstudio_session=tossed-{number}" for number in range(5))])
    both = [(name, f"{tossed}; {cookie}")]
    assert ask(app, "GET", "/me", None, headers=both).json == "operator"
    assert ask(app, "POST", "/logout", None, headers=both).status == 303
    assert ask(app, "GET", "/me", None, headers=both).status == 401


def test_an_address_signs_in_with_a_one_time_token_alone(app, access, tokens):
    """Whoever has a token could sign others in as himself by a link, and a secret would stay in their history."""
    _, secret = tokens.add("mallory", Role.ACT)
    answer = ask(app, "GET", f"/login?token={secret}", None)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_a_session_outlives_its_server(tokens, clock, tmp_path):
    """Not one that began with a token of that server alone, nor one that was ended, unused for long, or revoked."""

    def server():
        access = Access(tokens, sessions=BrowserSessions(tmp_path, lambda: clock.now), clock=lambda: clock.now)
        access.allow("of-this-process", Caller("token-file", Role.ACT))
        return access

    def name(access, cookie):
        caller = access.caller(None, f"rlstudio_session={cookie}")
        return caller and caller.name

    _, laptop = tokens.add("laptop", Role.READ)
    _, phone = tokens.add("phone", Role.READ)
    first = server()
    given = [first.one_time_token(), laptop, phone, "of-this-process", first.one_time_token()]
    cookies = [first.begin_session(secret) for secret in given]
    first.end_session(f"rlstudio_session={cookies[4]}")
    tokens.revoke("phone")
    second = server()
    assert [name(second, cookie) for cookie in cookies] == ["operator", "laptop", None, None, None]
    files = [file.read_text() for file in (tmp_path / "server/sessions").iterdir()]
    assert len(files) == 2
    assert not any(secret in text for text in files for secret in (*cookies, *given))
    clock.now += SESSION_SECONDS - 1
    assert name(second, cookies[0]) == "operator"
    second.sessions.close()
    clock.now += 2
    third = server()
    assert [name(third, cookie) for cookie in cookies[:2]] == ["operator", None]


def test_signing_out(app, access):
    cookie = signed_in(ask(app, "GET", f"/login?token={access.one_time_token()}", None))
    assert ask(app, "POST", "/logout", None, headers=cookie).status == 303
    assert ask(app, "GET", "/me", None, headers=cookie).status == 401


def test_who_opens_a_page_without_a_session_is_led_to_the_form(app):
    opened = [("accept", "text/html,*/*"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]
    answer = ask(app, "GET", "/me", None, headers=opened)
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    form = ask(app, "GET", "/login", None, headers=opened)
    assert form.status == 200
    assert b"<script" not in form.body
    assert b"style=" not in form.body
    assert ask(app, "GET", "/me", None).status == 401


def test_a_new_secret_is_in_no_file_also_where_its_request_has_a_key(access, tokens, tmp_path):
    """An answer with a key is kept for whoever asks again; this one is not."""
    kept = made(account_routes("/api/v1", tokens, AuditLog(tmp_path)), access=access, state_dir=tmp_path)
    _, boss = tokens.add("boss", Role.ACT)
    key = [("idempotency-key", "k")]
    first, again = (ask(kept, "POST", "/api/v1/tokens", boss, {"name": "robot"}, key) for _ in range(2))
    assert (first.status, again.status) == (201, 409)
    assert "robot is active already" in again.json["detail"]
    assert {change["location"] for change in AuditLog(tmp_path).listed() if change["status"] == 201} == {
        "/api/v1/tokens/robot"
    }
    files = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 1
    assert not any(secret in text for secret in (boss, first.json["secret"]) for text in files)


FOREIGN_HOSTS = ("evil.example", "10.evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:1")


def test_s8_another_site_can_send_nothing_with_a_cookie(app, access):
    """CSRF and DNS rebinding (S8): exact Host, Origin on every method, and where a request began."""
    cookie = signed_in(ask(app, "GET", f"/login?token={access.one_time_token()}", None))
    foreign = [
        [("origin", origin)]
        for origin in (
            "null",
            "http://evil.example",
            f"http://{HOST}.evil.example",
            "http://127.0.0.1:1",
            f"ftp://{HOST}",
        )
    ]
    foreign += [[("sec-fetch-site", site), ("sec-fetch-mode", "cors")] for site in ("cross-site", "same-site")]
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"):
        for headers in foreign:
            assert ask(app, method, "/me", None, headers=[*cookie, *headers]).status == 403, (method, headers)
        for host in FOREIGN_HOSTS:
            assert ask(app, method, "/me", None, headers=cookie, host=host).status == 421
    own = [*cookie, ("origin", f"http://{HOST}"), ("sec-fetch-site", "same-origin")]
    assert ask(app, "GET", "/me", None, headers=own).status == 200


def test_tokens_over_http(app, tokens):
    _, secret = tokens.add("boss", Role.ACT)
    made_token = ask(app, "POST", "/api/v1/tokens", secret, {"name": "robot", "role": "read", "expires_days": 1})
    assert made_token.status == 201
    assert ask(app, "GET", "/me", made_token.json["secret"]).json == "robot"
    rows = ask(app, "GET", "/api/v1/tokens", secret).json["items"]
    assert [(row["name"], row["state"]) for row in rows] == [("boss", "active"), ("robot", "active")]
    assert made_token.json["secret"] not in str(rows)
    assert ask(app, "GET", "/api/v1/tokens", made_token.json["secret"]).status == 403
    assert ask(app, "DELETE", "/api/v1/tokens/robot", secret).status == 204
    assert ask(app, "GET", "/me", made_token.json["secret"]).status == 401
    assert ask(app, "DELETE", "/api/v1/tokens/robot", secret).status == 404
    assert ask(app, "GET", "/api/v1/audit", secret).json == {"items": []}
