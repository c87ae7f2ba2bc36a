"""The application around routes: who may call, what is refused before a route sees it, what an error looks like."""

from __future__ import annotations

import pytest
from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from rlstudio.client.refusals import refusal
from rlstudio.core.errors import CheckpointError, Conflict, RunNotFound, StorageError, UserError
from rlstudio.server.http.app import decisions
from rlstudio.server.http.callers import PUBLIC, Actor, Reader
from rlstudio.server.http.limits import Limits
from support.http_app import ACT, HOST, READ, ask, made

router = APIRouter(prefix="/api/v1")


@router.get("/health", dependencies=[PUBLIC])
def health():
    return {"status": "ok"}


@router.post("/form", dependencies=[PUBLIC])
def take_form():
    return {}


@router.get("/runs/{number}")
def show(number: int, caller: Reader):
    return {"number": number, "caller": caller.name}


@router.get("/tokens")
def tokens(caller: Actor):
    return []


@router.post("/runs")
def start(caller: Actor, wanted: dict[str, int]):
    return wanted


ERRORS = {
    "user": UserError("train.lr: /home/ada/runs/x/config.yaml is wrong"),
    "missing": RunNotFound("no run x"),
    "conflict": Conflict("run x: is COMPLETED"),
    "disk": StorageError("/home/ada/runs/x: the disk is full"),
    "checkpoint": CheckpointError("/home/ada/runs/x/model.safetensors: sha256 differs"),
    "defect": ZeroDivisionError("the secret of /home/ada"),
}


@router.get("/raise/{name}")
def fail(name: str, caller: Reader):
    raise ERRORS[name]


@pytest.fixture(scope="module")
def app():
    return made(router, limits=Limits(body=1000))


def test_a_token_is_asked_for_on_every_path_but_health(app):
    assert ask(app, "GET", "/api/v1/health", token=None).status == 200
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"):
        for path in ("/api/v1/runs/1", "/api/v1/runs", "/api/v1/tokens", "/nothing", "/docs", "/openapi.json", "/"):
            for token in (None, "", "wrong", ACT[:-1], ACT + "x", "é"):
                assert ask(app, method, path, token=token).status == 401, (method, path, token)
        if method != "GET":
            assert ask(app, method, "/api/v1/health", token=None).status == 401
    assert ask(app, "GET", f"/api/v1/runs/1?token={ACT}", token=None).status == 401


def test_roles(app):
    assert ask(app, "GET", "/api/v1/runs/1", READ).json == {"number": 1, "caller": "rob"}
    assert ask(app, "GET", "/api/v1/runs/1").json["caller"] == "ada"
    assert ask(app, "GET", "/api/v1/tokens").status == 200
    assert ask(app, "GET", "/api/v1/tokens", READ).status == 403
    assert ask(app, "POST", "/api/v1/runs", READ, body={"a": 1}).status == 403
    assert ask(app, "POST", "/api/v1/runs", body={"a": 1}).json == {"a": 1}


def test_every_route_and_method_has_a_decision_or_the_application_is_not_made(app):
    assert {(method, path) for path, method, _ in decisions(app)} >= {
        ("GET", "/api/v1/health"),
        ("POST", "/api/v1/runs"),
    }
    forgotten = APIRouter()
    forgotten.get("/open")(lambda: "anything")
    with pytest.raises(TypeError, match="route /open: does not say who may call it"):
        made(forgotten)
    below = APIRouter()
    below.include_router(forgotten, prefix="/below")
    with pytest.raises(TypeError, match="route /below/open: does not say"):
        made(below)
    wide = APIRouter()
    wide.get("/files/{path}", dependencies=[PUBLIC])(lambda path: path)
    with pytest.raises(TypeError, match="is public, so its path may have no parameters"):
        made(wide)
    mounted = APIRouter()
    mounted.mount("/static", lambda scope, receive, send: None)
    with pytest.raises(TypeError, match="route /static: does not say"):
        made(mounted)


@pytest.mark.parametrize(
    ("name", "status", "error", "detail"),
    [
        ("user", 422, "UserError", "train.lr: .../config.yaml is wrong"),
        ("missing", 404, "RunNotFound", "no run x"),
        ("conflict", 409, "Conflict", "run x: is COMPLETED"),
        ("disk", 507, "StorageError", ".../x: the disk is full"),
        ("checkpoint", 409, "CheckpointError", ".../model.safetensors: sha256 differs"),
    ],
)
def test_errors_are_problem_documents_without_paths(app, name, status, error, detail):
    answer = ask(app, "GET", f"/api/v1/raise/{name}")
    assert answer.json["error"] == error
    told = refusal(answer.status, answer.body, "http://127.0.0.1:8710")  # the client raises what it is locally
    assert (type(told).__name__, str(told)) == (error, detail)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, answer.json["status"], answer.json["detail"]) == (status, status, detail)


def test_a_defect_is_told_to_the_operator_alone():
    lines = []
    answer = ask(made(router, complain=lines.append), "GET", "/api/v1/raise/defect")
    assert answer.status == 500
    number = answer.json["detail"].removeprefix("internal error ")
    (line,) = lines
    assert line.startswith(
        f"internal error {number}: GET /api/v1/raise/{{name}}: ZeroDivisionError: the secret of /home"
    )


def test_an_answer_that_ends_early_over_what_was_removed_is_no_defect():
    """It was an internal error in the log of the server, and said nothing of what it was."""
    lines, router = [], APIRouter()

    @router.get("/stream/{kind}")
    def stream(caller: Reader, kind: str):
        def pieces():
            yield b"a"
            raise StorageError("gone") if kind == "removed" else ZeroDivisionError

        return StreamingResponse(pieces())

    app = made(router, complain=lines.append)
    for kind, complaints in (("removed", 0), ("defect", 1)):
        with pytest.raises((RuntimeError, ZeroDivisionError)):
            ask(app, "GET", f"/stream/{kind}")
        assert len(lines) == complaints


def test_a_field_that_is_wrong_is_named(app):
    answer = ask(app, "GET", "/api/v1/runs/one")
    assert (answer.status, answer.json["problems"][0]["field"]) == (422, "number")
    answer = ask(app, "POST", "/api/v1/runs", body={"a": "one"})
    assert (answer.status, answer.json["problems"][0]["field"]) == (422, "a")
    for body, said in (
        (b'{"a": ' + b"9" * 5000 + b"}", "thousands of digits"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": 1,}', "at character 8"),
    ):
        answer = ask(made(router), "POST", "/api/v1/runs", body=body, headers=[("content-type", "application/json")])
        assert answer.status in (400, 422)
        (problem,) = answer.json["problems"]
        assert problem["field"] == "body"
        assert said in problem["message"]
    for path in ("/api/v1/nothing", "/api/v1/runs/1/"):
        assert ask(app, "GET", path).headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "127.0.0.1", "127.0.0.1:1", f"{HOST}.evil.example", f"x{HOST}"]
)
def test_another_host_name_is_refused(app, host):
    assert ask(app, "GET", "/api/v1/health", host=host).status == 421
    assert ask(app, "GET", "/api/v1/health", headers=[("host", "evil.example")]).status == 421


def test_bodies_are_bounded_and_of_one_kind(app):
    assert ask(app, "POST", "/api/v1/runs", body=b" " * 1001).status == 413
    for length, status in (("1001", 413), ("9" * 5000, 413), ("-1", 400), ("1e3", 400), ("+1", 400), ("", 400)):
        answer = ask(app, "POST", "/api/v1/runs", headers=[("content-length", length)])
        assert answer.status == status, length
        assert answer.headers["connection"] == "close"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert ask(app, "POST", "/api/v1/runs", body=b"{}", headers=[("content-type", kind)]).status == 415
    for header in (("content-encoding", "gzip"), ("content-encoding", "br")):
        assert ask(app, "POST", "/api/v1/runs", body={}, headers=[header]).status == 415
    assert ask(app, "GET", "/api/v1/runs/1", headers=[("content-length", "5")]).status == 400


def test_who_shows_no_token_may_send_little():
    """What a public route takes is held for everybody who cares to send it."""
    app, kind = made(router), ("content-type", "application/json")
    most = Limits().public_body
    assert ask(app, "POST", "/api/v1/form", None, b" " * most, [kind]).status == 200
    assert ask(app, "POST", "/api/v1/form", None, b" " * (most + 1), [kind]).status == 413
    assert ask(app, "POST", "/api/v1/form", None, b"", [kind, ("content-length", str(most + 1))]).status == 413
    assert ask(app, "POST", "/api/v1/runs", READ, b" " * (most + 1), [kind]).status == 403
    assert ask(app, "POST", "/api/v1/runs", ACT, b'{"a": 1}' + b" " * most, [kind]).status == 200


def test_heads_are_bounded(app):
    assert ask(app, "GET", "/api/v1/runs/1", headers=[(f"x-{n}", "1") for n in range(70)]).status == 431
    assert ask(app, "GET", "/api/v1/runs/1", headers=[("x", "1" * 20000)]).status == 431
    assert ask(app, "GET", "/api/v1/runs/1?" + "1" * 9000).status == 414
    assert ask(app, "GET", "/api/v1/runs/1", headers=[("range", "bytes=0-1,2-3")]).status == 416


def test_every_answer_tells_browsers_what_to_keep_to(app):
    answers = [
        ask(app, "GET", "/api/v1/health", token=None),
        ask(app, "GET", "/api/v1/runs/1", token=None),
        ask(app, "GET", "/api/v1/nothing"),
        ask(app, "GET", "/api/v1/raise/defect"),
        ask(app, "GET", "/api/v1/health", host="evil.example"),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert not any(name.startswith("access-control") for name in answer.headers)
