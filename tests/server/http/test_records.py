"""Who did what is written down before it happens, and an answer with a key is given once more, not worked for again."""

from __future__ import annotations

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from fastapi import APIRouter, Response

from rlstudio.core.errors import Conflict
from rlstudio.server.http.callers import Actor, Reader
from rlstudio.server.http.records.audit import AuditLog
from rlstudio.server.http.records.replies import Replies, Reply
from rlstudio.server.http.tokens import DAY
from support.http_app import READ, ask, made


class Counting:
    """An application with a route that counts how often it ran."""

    def __init__(self, state_dir):
        self.ran, self.keys, self.error = 0, [], None
        router = APIRouter()
        router.get("/count")(self.look)
        router.post("/count", status_code=201)(self.count)
        self.app = made(router, state_dir=state_dir)

    def look(self, caller: Reader):
        return self.ran

    def count(self, caller: Actor, wanted: dict[str, int]):
        self.keys.append(caller.key)
        if self.error is not None:
            raise self.error
        self.ran += 1
        return {"ran": self.ran, **wanted}

    def post(self, key=None, **wanted):
        return ask(self.app, "POST", "/count", body=wanted, headers=[] if key is None else [("idempotency-key", key)])


@pytest.fixture
def counting(tmp_path):
    return Counting(tmp_path)


def test_the_same_key_gets_the_same_answer_also_from_another_server(counting, tmp_path):
    first = counting.post("k", a=1)
    again, elsewhere = counting.post("k", a=1), Counting(tmp_path).post("k", a=1)
    for answer in (first, again, elsewhere):
        assert (answer.status, answer.json) == (201, {"ran": 1, "a": 1})
    assert [answer.headers.get("idempotency-replayed") for answer in (first, again, elsewhere)] == [
        None,
        "true",
        "true",
    ]
    assert counting.ran == 1
    assert counting.post("other", a=1).json["ran"] == 2
    assert counting.post(a=1).json["ran"] == 3


def test_the_same_key_with_another_body_is_refused(counting):
    counting.post("k", a=1)
    assert counting.post("k", a=2).status == 422
    assert counting.ran == 1
    for bad in ("", "x" * 129, "a\tb"):
        assert counting.post(bad).status == 422


def test_what_was_refused_is_judged_again(counting):
    for error, status in ((Conflict("not now"), 409), (ZeroDivisionError(), 500)):
        counting.error = error
        assert counting.post("k", a=1).status == status
    counting.error = None
    assert counting.post("k", a=1).status == 201


def test_a_server_that_died_over_a_request_runs_it_with_the_same_key(counting, tmp_path):
    """The store remembers the key with the run, so the route finds what was begun."""

    class Killed(BaseException):
        pass

    counting.error = Killed()
    with pytest.raises(Killed):
        counting.post("k", a=1)
    later = Counting(tmp_path)
    assert later.post("k", a=1).status == 201
    assert later.keys == counting.keys
    assert later.keys[0].startswith("http-")


def test_two_servers_of_one_folder_work_once_at_the_same_request(tmp_path):
    """Each knew only what it was at itself."""
    ran, is_at_it, may_end = [], threading.Event(), threading.Event()
    router = APIRouter()

    @router.post("/slow", status_code=201)
    def slow(caller: Actor):
        ran.append(caller.key)
        is_at_it.set()
        may_end.wait(20)
        return len(ran)

    apps = [made(router, state_dir=tmp_path) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, apps[0], "POST", "/slow", headers=[("idempotency-key", "k")])
        assert is_at_it.wait(20)
        second = pool.submit(ask, apps[1], "POST", "/slow", headers=[("idempotency-key", "k")])
        with pytest.raises(TimeoutError):
            second.result(0.3)
        may_end.set()
        assert [answer.result().json for answer in (first, second)] == [1, 1]
    assert len(ran) == 1


@pytest.mark.parametrize("jump", [-400 * DAY, -DAY, -0.1, 0.1, DAY, 400 * DAY])
def test_an_answer_is_found_again_after_the_clock_has_jumped(tmp_path, jump):
    """A day back it was looked for in other folders; far ahead it was thrown away."""
    clock = SimpleNamespace(now=20_000 * DAY)
    replies = Replies(tmp_path, lambda: clock.now)
    replies.keep("k", Reply(request="a"))
    clock.now += jump
    replies.keep("other", Reply(request="b"))
    replies.keep("k", Reply(request="a", decided_on="x"))
    clock.now -= jump
    assert [replies.find(number).decided_on for number in ("k", "other")] == ["x", None]
    replies.drop("k")
    assert replies.find("k") is None


def test_a_request_is_worked_at_once_also_over_midnight(tmp_path):
    """The lock was looked for in the folder of another day."""
    clock = SimpleNamespace(now=20_000 * DAY - 1.0)
    one, other = (Replies(tmp_path, lambda: clock.now) for _ in range(2))
    lock = one.lock("k")
    assert lock is not None
    one.keep("k", Reply(request="a"))
    clock.now += 2.0
    assert other.lock("k") is None
    os.close(lock)


def test_answers_of_other_days_are_thrown_away(tmp_path):
    clock = SimpleNamespace(now=20_000 * DAY)
    replies = Replies(tmp_path, lambda: clock.now)
    for day in range(6):
        replies.keep(str(day), Reply(request="a"))
        clock.now += DAY
    assert sorted(folder.name for folder in (tmp_path / "server/answers").iterdir()) == ["20003", "20004", "20005"]


def test_changes_are_written_before_and_after_and_looks_are_not(counting, tmp_path):
    counting.post("k", a=1)
    ask(counting.app, "GET", "/count")
    ask(counting.app, "POST", "/count", READ, body={"a": 1})
    ask(counting.app, "POST", "/count", None, body={"a": 1})
    lines = [json.loads(line) for line in (tmp_path / "server/audit.jsonl").read_text().splitlines()]
    assert [(line["seq"], line["who"], line["method"], line["path"], line["status"]) for line in lines] == [
        (1, "ada", "POST", "/count", None),
        (2, "ada", "POST", "/count", 201),
    ]
    (change,) = AuditLog(tmp_path).listed()
    assert (change["who"], change["role"], change["status"]) == ("ada", "act", 201)
    for file in (tmp_path / "server").rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600)
        assert file.is_dir() or b"secret" not in file.read_bytes()


def test_a_change_says_what_it_was_made_to(tmp_path):
    """`last` is another run tomorrow."""
    router = APIRouter()

    @router.post("/runs/{ref}/stop")
    def stop(caller: Actor, ref: str, response: Response):
        response.headers["Location"] = "/runs/20261119-7"

    ask(made(router, state_dir=tmp_path), "POST", "/runs/last/stop")
    (change,) = AuditLog(tmp_path).listed()
    assert (change["path"], change["location"]) == ("/runs/last/stop", "/runs/20261119-7")
    assert AuditLog(tmp_path).first_broken() is None


def test_a_line_that_was_changed_cut_or_moved_shows(tmp_path):
    audit = AuditLog(tmp_path)
    assert audit.first_broken() is None
    for number in range(4):
        AuditLog(tmp_path).begin("ada", "act", "POST", f"/runs/{number}")
        audit.begin("rob", "act", "POST", f"/runs/{number}")
    assert audit.first_broken() is None
    assert [item["seq"] for item in audit.listed()] == [8, 7, 6, 5, 4, 3, 2, 1]
    file = tmp_path / "server/audit.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for broken, at in (
        ([lines[0].replace(b"ada", b"eve"), *lines[1:]], 1),
        ([*lines[:3], *lines[4:]], 4),
        ([lines[1], lines[0], *lines[2:]], 1),
    ):
        file.write_bytes(b"".join(broken))
        assert AuditLog(tmp_path).first_broken() == at


def test_a_torn_line_ends_nothing(tmp_path):
    AuditLog(tmp_path).begin("ada", "act", "POST", "/runs")
    file = tmp_path / "server/audit.jsonl"
    file.write_bytes(file.read_bytes() + b'{"seq": 2, "wh')
    AuditLog(tmp_path).begin("ada", "act", "POST", "/runs")
    assert len(AuditLog(tmp_path).listed()) == 2
