"""The client against answers that are written here: what it sends, how often, and what it makes of refusals."""

import json
from collections.abc import Callable

import httpx
import pytest

from rlstudio.cli.remote.releases import promote
from rlstudio.client import Client, NotAllowed, ServerUnreachable
from rlstudio.client.address import ServerAddress
from rlstudio.client.events import parse_events
from rlstudio.client.refusals import refusal
from rlstudio.client.token import find_token, usual_file
from rlstudio.core import errors
from rlstudio.core.errors import UserError

URL = "http://127.0.0.1:8710"
RUN = {"id": "20261115-120000000000-ppo-cartpole-v1-a3f1", "state": "RUNNING"}


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("RLSTUDIO_TOKEN", "rls_secret")


class Server:
    """Answers one after the other: (status, document), an exception, or a function of the request."""

    def __init__(self, *answers):
        self.answers, self.requests, self.pauses = [*answers], [], []
        self.client = Client(URL, transport=httpx.MockTransport(self))
        self.client._connection._sleep = self.pauses.append

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Callable):
            return answer(request)
        status, document, *headers = answer
        return httpx.Response(status, json=document, headers=headers[0] if headers else None)

    @property
    def lines(self):
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.requests]


def problem(status, detail, **more):
    return status, {"type": "about:blank", "title": "x", "status": status, "detail": detail, **more}


def test_a_request_has_the_token_and_the_fields():
    server = Server((201, {"runs": [RUN], "run": RUN}))
    run = server.client.launch({"algo": "ppo"}, ["train.epochs=3"], seed=4)
    assert run["id"] == RUN["id"]
    (request,) = server.requests
    assert request.headers["Authorization"] == "Bearer rls_secret"
    assert len(request.headers["Idempotency-Key"]) == 32
    expected = {"seed": 4, "config": {"algo": "ppo"}, "overrides": ["train.epochs=3"], "seeds": 1}
    assert json.loads(request.content) == expected


def test_filters_are_repeated_names_and_what_is_none_is_left_out():
    server = Server((200, {"items": [], "next_cursor": None, "total": 0}))
    server.client.runs.page(states=["failed", "running"], limit=7)
    assert server.lines == ["GET /api/v1/runs?state=failed&state=running&sort=-id&limit=7"]


def test_a_list_goes_over_all_pages():
    first = {"items": [{"id": "a"}, {"id": "b"}], "next_cursor": "more", "total": 3}
    last = {"items": [{"id": "c"}], "next_cursor": None, "total": 3}
    assert [run["id"] for run in Server((200, first), (200, last)).client.runs.list()] == ["a", "b", "c"]
    server = Server((200, {"items": [{"id": "a"}], "next_cursor": "more", "total": 3}))
    assert [run["id"] for run in server.client.runs.list(limit=1)] == ["a"]


def test_a_reference_is_one_part_of_the_path():
    server = Server((200, RUN))
    server.client.runs.get("../tokens?x=1")
    assert server.lines == ["GET /api/v1/runs/..%2Ftokens%3Fx%3D1"]


def test_a_lost_answer_is_asked_for_again_under_the_same_key():
    lost = httpx.ReadError("connection reset")
    server = Server((200, {"status": "ok"}), lost, httpx.ConnectError("refused"), (202, RUN))
    server.client.health()
    server.client.runs.stop("last")
    keys = {request.headers["Idempotency-Key"] for request in server.requests[1:]}
    assert len(keys) == 1
    assert server.pauses == [0.2, 0.5]


def test_a_server_that_is_not_there_is_said_at_once():
    server = Server(httpx.ConnectError("[Errno 111] Connection refused"))
    with pytest.raises(ServerUnreachable, match=r"server http://127.0.0.1:8710: \[Errno 111\] Connection refused"):
        server.client.health()
    assert server.pauses == []


def test_after_five_attempts_it_is_given_up():
    server = Server(*[httpx.ReadTimeout("timed out")] * 5)
    with pytest.raises(ServerUnreachable, match="timed out"):
        server.client.runs.stop("last")
    assert server.answers == []


def test_a_busy_server_is_asked_again_when_it_says():
    server = Server((503, {}, {"Retry-After": "3"}), (429, {}, {"Retry-After": "999"}), (200, RUN))
    assert server.client.runs.get("last")["id"] == RUN["id"]
    assert server.pauses == [3.0, 30.0]


@pytest.mark.parametrize("asked", ["nan", "-5", "soon"])
def test_a_pause_that_is_none_is_the_usual_one(asked):
    server = Server((503, {}, {"Retry-After": asked}), (200, {"items": []}))
    assert server.client.sweeps.list() == []
    assert server.pauses == [0.2]


@pytest.mark.parametrize("answer", [b"[" * 100_000, b"{}", b"[1]", b"null", b'{"items": 7'])
def test_an_answer_of_another_program_is_said_to_be_one(answer):
    client = Server(lambda request: httpx.Response(200, content=answer)).client
    with pytest.raises(ServerUnreachable, match="is it RLStudio, and"), client.understood():
        client.sweeps.list()


def test_what_cannot_be_decoded_is_not_asked_for_again():
    server = Server(lambda request: httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=b"none"))
    with pytest.raises(ServerUnreachable, match="incorrect header check"):
        server.client.sweeps.list()
    assert server.pauses == []


def test_an_own_mistake_is_not_blamed_on_a_server_that_was_not_asked():
    client = Server().client
    with pytest.raises(KeyError), client.understood():
        {}["x"]


def test_a_run_that_is_gone_when_its_removal_is_repeated_was_removed():
    gone = problem(404, "run x: there is none")
    Server(httpx.ReadError("reset"), gone).client.runs.delete("x")
    with pytest.raises(errors.RunNotFound):
        Server(gone).client.runs.delete("x")


def test_an_etag_is_sent_as_if_match():
    server = Server((200, RUN))
    server.client.runs.change("last", tags=[], etag="abc")
    (request,) = server.requests
    assert (request.headers["If-Match"], json.loads(request.content)) == ('"abc"', {"tags": []})


@pytest.mark.parametrize(
    ("answer", "kind", "line"),
    [
        (problem(404, "run x: there is none"), errors.RunNotFound, "run x: there is none"),
        (problem(409, "run x: is RUNNING"), errors.Conflict, "run x: is RUNNING"),
        (problem(409, "gate", error="GateFailed"), errors.GateFailed, "gate"),
        (problem(412, "run x: has changed"), errors.Conflict, "run x: has changed"),
        (problem(422, "metric: unknown", error="UnknownName"), errors.UnknownName, "metric: unknown"),
        (problem(422, "two\nlines"), UserError, "two lines"),
        (problem(401, "Authorization: expected `Bearer TOKEN`"), NotAllowed, f"server {URL}: the token is not known"),
        (problem(403, "token t: has the role read, this needs act"), NotAllowed, "token t: has the role read"),
        (problem(507, "the disk is full"), errors.StorageError, "the disk is full"),
        (problem(500, "defect 4711"), errors.RLStudioError, "defect 4711"),
        ((404, "not found"), ServerUnreachable, "answered 404, and not as RLStudio does"),
    ],
)
def test_a_refusal_is_raised_as_what_it_is_locally(answer, kind, line):
    with pytest.raises(kind) as raised:
        Server(answer).client.runs.get("x")
    assert type(raised.value) is kind
    assert line in str(raised.value)


def test_each_problem_of_a_configuration_is_a_line_with_its_place():
    problems = [
        {"field": "train.clipp", "message": "unknown key; did you mean clip?", "line": 3, "column": 5},
        {"field": "env.id", "message": "missing"},
    ]
    error = refusal(422, json.dumps({"detail": "two", "error": "ConfigError", "problems": problems}).encode(), URL)
    assert isinstance(error, errors.ConfigError)
    assert str(error) == "3:5: train.clipp: unknown key; did you mean clip?\nenv.id: missing"


def test_an_answer_that_is_no_json_is_no_server_of_ours():
    with pytest.raises(ServerUnreachable, match="answered no JSON"):
        Server(lambda request: httpx.Response(200, text="<html>")).client.health()


def test_what_an_operation_comes_to_is_waited_for_and_its_failure_is_raised():
    begun = {"id": "7", "kind": "promote", "state": "running"}
    failed = {**begun, "state": "failed", "error": problem(409, "gate: 3 < 5", error="GateFailed")[1]}
    done = {**begun, "state": "done", "result": {"version": 2}, "download": "/api/v1/operations/7/download"}
    server = Server((202, begun), (200, begun), (200, done))
    result = server.client.finished(server.client.models.promote("m", "last"))
    assert result == {"version": 2, "download": "/api/v1/operations/7/download"}
    with pytest.raises(errors.GateFailed, match="gate: 3 < 5"):
        server.client.finished(failed)


def test_a_promotion_that_is_refused_ends_as_here_with_its_numbers(capsys):
    begun = {"id": "7", "kind": "promote", "state": "running", "result": None, "error": None}
    verdict = {"promote": False, "reason": "3 < 5"}
    judged = {"name": "m:2", "stage": "none", "verdict": verdict}
    refused = problem(409, "model m:2: not promoted: 3 < 5", error="GateFailed")[1]
    server = Server((202, begun), (200, {**begun, "state": "failed", "result": judged, "error": refused}))
    options = dict.fromkeys(("if_current", "min_return", "max_std", "worst_return", "force"))
    with pytest.raises(errors.GateFailed, match="model m:2: not promoted: 3 < 5") as raised:
        promote(server.client, "m:2", "", "production", "last", margin=0.0, alpha=0.05, budget=9, json=True, **options)
    assert raised.value.exit_code == 7
    assert json.loads(capsys.readouterr().out) == judged


def test_a_run_is_waited_for_until_it_neither_runs_nor_waits():
    states = [(200, {**RUN, "state": state}) for state in ("QUEUED", "RUNNING", "COMPLETED")]
    server = Server(*states)
    assert server.client.runs.wait("x")["state"] == "COMPLETED"
    assert len(server.pauses) == 2


def test_events_are_parsed_as_the_standard_says():
    lines = [": comment", "event: run", "id: 5", 'data: {"a":', "data: 1}", "", "data:plain", "", "event: nothing", ""]
    assert [tuple(event) for event in parse_events(lines)] == [("run", "5", {"a": 1}), ("message", "5", "plain")]


def test_a_stream_that_breaks_goes_on_behind_the_last_event():
    def piece(text):
        return lambda request: httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})

    server = Server(
        piece("event: run\nid: 1\ndata: {}\n\nevent: run\nid: 2\nda"),  # the rest got lost
        httpx.ReadError("reset"),
        piece("event: run\nid: 2\ndata: {}\n\n"),
    )
    stream = server.client.stream(["a", "b"], ["runs"])
    assert [next(stream).id, next(stream).id] == ["1", "2"]
    assert [request.headers.get("Last-Event-ID") for request in server.requests] == [None, "1", "1"]
    assert server.lines[0] == "GET /api/v1/stream?runs=a%2Cb&topics=runs"


def test_a_stream_from_a_server_that_stays_away_ends():
    server = Server(*[httpx.ConnectError("refused")] * 5)
    with pytest.raises(ServerUnreachable):
        next(server.client.stream())


def test_a_download_is_there_whole_or_not_at_all(tmp_path):
    def broken(request):
        def content():
            yield b"half"
            raise httpx.ReadError("reset")

        return httpx.Response(200, content=content())

    target = tmp_path / "bundle.tar"
    with pytest.raises(ServerUnreachable):
        Server(broken).client.models.download_bundle("m", 1, target)
    assert list(tmp_path.iterdir()) == []
    Server(lambda request: httpx.Response(200, content=b"whole")).client.models.download_bundle("m", 1, target)
    assert target.read_bytes() == b"whole"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ftp://a", "is no address"),
        ("127.0.0.1:8710", "is no address"),
        ("http://example.org:8710", "plain http is for this machine alone; use https, or forward a port with: ssh -L"),
        ("http://10.0.0.5:8710", "plain http"),
        ("http://127.0.0.1.example.org", "plain http"),
        ("https://user:pass@example.org", "a token is not part of the address"),
        ("https://example.org/path", "without a path"),
        ("https://example.org:99999", "ort"),
        ("https://exämple.org", "is no address"),
    ],
)
def test_addresses_that_are_refused(address, reason):
    with pytest.raises(UserError) as raised:
        ServerAddress.parse(address)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("http://localhost:8710/", "http://localhost:8710"),
        ("http://[::1]:8710", "http://[::1]:8710"),
        ("https://Example.org", "https://example.org:443"),
    ],
)
def test_addresses(address, same):
    assert str(ServerAddress.parse(address)) == same


def test_a_token_is_looked_for_in_the_environment_and_in_files(tmp_path, monkeypatch):
    address = ServerAddress.parse(URL)
    assert find_token(address) == "rls_secret"
    monkeypatch.delenv("RLSTUDIO_TOKEN")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UserError, match="needs a token; set RLSTUDIO_TOKEN, or keep it in"):
        find_token(address)
    file = usual_file(address)
    file.parent.mkdir()
    file.write_text("rls_filed\n")
    with pytest.raises(UserError, match=f"others may read it; run: chmod 600 {file}"):
        find_token(address)
    file.chmod(0o600)
    assert find_token(address) == "rls_filed"
    other = tmp_path / "other"
    monkeypatch.setenv("RLSTUDIO_TOKEN_FILE", str(other))
    with pytest.raises(UserError, match="cannot be read: No such file"):
        find_token(address)
    other.touch(0o600)
    with pytest.raises(UserError, match="holds no token"):
        find_token(address)
    with pytest.raises(UserError, match="is not a regular file"):
        find_token(address, tmp_path)
