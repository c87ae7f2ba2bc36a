"""The stream: everything that a run writes arrives once, in order, whatever connection breaks in between."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from rlstudio.control.runs.folders import folder_of
from rlstudio.core.host.process import this_process
from rlstudio.experiment.metrics.records import records
from rlstudio.experiment.metrics.writer import MetricsWriter
from rlstudio.server.api.live.hub import Hub, StreamListener
from rlstudio.server.api.live.position import StreamPosition, decode
from rlstudio.server.api.live.store_watch import StoreWatch
from rlstudio.server.api.routers import routers
from rlstudio.server.api.routes import stream
from rlstudio.server.http.access import COOKIE, Access
from rlstudio.server.http.roles import Role
from rlstudio.server.http.sessions import SESSION_SECONDS, BrowserSessions
from rlstudio.server.http.tokens import Tokens
from support.api_world import api_over
from support.control_world import S, request
from support.deadlines import PATIENCE
from support.http_app import ask, made


class Reader:
    """What a client keeps of a stream: series by the cursors, events by their numbers, and the last id."""

    def __init__(self) -> None:
        self.last_id = ""
        self.cursors: dict[str, str] = {}
        self.steps: dict[tuple[str, str], list[float]] = {}
        self.events: dict[str, list[int]] = {}
        self.log = ""
        self.runs: dict[str, dict] = {}
        self.kinds: list[str] = []

    def take(self, piece: bytes, cut: int | None = None) -> None:
        """`cut`: only so many events of the piece arrive, and then the connection breaks."""
        texts = [text for text in piece.decode().split("\n\n") if text]
        for text in texts[:cut]:
            fields = dict(line.split(": ", 1) for line in text.splitlines())
            self.kinds.append(fields["event"])
            self._event(fields["event"], json.loads(fields["data"]))
            self.last_id = fields.get("id", self.last_id)

    def _event(self, kind, data):
        if kind == "metrics":
            assert data["complete"] or data["after"] == self.cursors.get(data["run"], data["after"])
            for name, curve in data["series"].items():
                known = self.steps.setdefault((data["run"], name), [])
                if data["complete"]:
                    known.clear()
                known.extend(curve["x"])
            self.cursors[data["run"]] = data["next"]
        elif kind == "event":
            known = self.events.setdefault(data["run"], [])
            known.append(data["seq"])
        elif kind == "log":
            assert data["offset"] == len(self.log)
            self.log += data["text"]
        elif kind == "run":
            self.runs[data["id"]] = data


@pytest.fixture
def api(tmp_path):
    with api_over(tmp_path / "runs") as api:
        yield api


@pytest.fixture
def run(api):
    """One that trains, without ever training: its folder is written by the test."""
    store = api.service.acting.store
    row = store.create(request(), owner=this_process())
    folder_of(api.service.acting, row).close()
    return store.move(row.id, row.token, S.RUNNING)


@contextmanager
def writer(api, run) -> Iterator[MetricsWriter]:
    class NoLease:
        def check(self) -> None: ...

    made = MetricsWriter(api.service.looking.folder(run.id).path, lease=NoLease())
    try:
        yield made
    finally:
        made.close()


def listen(api, run, topics, last_id=""):
    entry = api.service.listing.find(run.id)
    return StreamListener([entry], frozenset(topics), decode(last_id, 1) if last_id else None)


def look(hub, *listeners):
    for listener, piece in hub._look(listeners, listeners):
        listener.piece = piece
    return [listener.piece for listener in listeners]


def test_nothing_is_lost_and_nothing_comes_twice_over_broken_connections(api, run):
    """Every third piece breaks off in the middle; the client comes back with the last id that it has."""
    hub, client = api.service.hub, Reader()
    topics = ("runs", "metrics", "events", "log")
    listener = listen(api, run, topics)
    client.take(look(hub, listener)[0])
    folder = api.service.looking.folder(run.id)
    with writer(api, run) as metrics, folder.log_path.open("w") as log:
        for n in range(1, 31):
            metrics.write(records(n, {"train/loss": n / 10, "eval/return_mean": float(n)}))
            metrics.flush()
            if n % 4 == 0:
                folder.event("noted", number=n)
            print(f"line {n}", file=log, flush=True)
            listener.piece = None
            (piece,) = look(hub, listener)
            assert piece is not None
            client.take(piece, cut=1 if n % 3 == 0 else None)
            if n % 3 == 0:
                listener = listen(api, run, topics, client.last_id)
        listener = listen(api, run, topics, client.last_id)
        client.take(look(hub, listener)[0] or b"")
    assert client.steps[run.id, "train/loss"] == list(range(1, 31))
    assert client.steps[run.id, "eval/return_mean"] == list(range(1, 31))
    events = list(folder.events())
    assert client.events[run.id] == list(range(len(events) - 6, len(events) + 1))
    assert client.log == folder.log_path.read_text()


def test_a_hub_of_another_server_goes_on_from_the_same_id(api, run):
    hub, client = api.service.hub, Reader()
    listener = listen(api, run, ("metrics", "runs"))
    client.take(look(hub, listener)[0])
    service = api.service
    with writer(api, run) as metrics:
        metrics.write(records(1, {"a": 1.0}))
        metrics.flush()
        service.acting.store.annotate(run.id, note="changed while away")
        other = Hub(service.shelf, StoreWatch(service.looking, service.listing, {}))
        client.take(look(other, listen(api, run, ("metrics", "runs"), client.last_id))[0])
    assert client.steps[run.id, "a"] == [1]
    assert client.runs[run.id]["note"] == "changed while away"


def test_a_run_that_was_cut_back_is_sent_whole(api, run):
    hub, client = api.service.hub, Reader()
    listener = listen(api, run, ("metrics",))
    client.take(look(hub, listener)[0])
    with writer(api, run) as metrics:
        metrics.write(records(1, {"a": 1.0}))
        place = metrics.offset()
        metrics.write(records(2, {"a": 2.0}))
        metrics.flush()
        listener.piece = None
        client.take(look(hub, listener)[0])
        metrics.cut_back(place)
        metrics.write(records(3, {"a": 3.0}))
        metrics.flush()
        listener.piece = None
        client.take(look(hub, listener)[0])
    assert client.steps[run.id, "a"] == [1, 3]


def test_a_hundred_listeners_cost_one_look(api, run, monkeypatch):
    """They get the same bytes object: read, encoded and joined once."""
    hub = api.service.hub
    listeners = [listen(api, run, ("metrics", "runs")) for _ in range(100)]
    look(hub, *listeners)
    with writer(api, run) as metrics:
        metrics.write(records(1, {"a": 1.0}))
        metrics.flush()
        for listener in listeners:
            listener.piece = None
        pieces = look(hub, *listeners)
    assert pieces[0] is not None
    assert len({id(piece) for piece in pieces}) == 1


def test_who_has_not_taken_the_last_piece_gets_nothing_more_until_then(api, run):
    hub, client = api.service.hub, Reader()
    slow = listen(api, run, ("metrics",))
    client.take(look(hub, slow)[0])
    with writer(api, run) as metrics:
        metrics.write(records(1, {"a": 1.0}))
        metrics.flush()
        slow.piece = None
        (first,) = look(hub, slow)
        for n in (2, 3):
            metrics.write(records(n, {"a": float(n)}))
            metrics.flush()
            assert hub._look([], [slow]) == []
        client.take(first)
        slow.piece = None
        client.take(look(hub, slow)[0])
    assert client.steps[run.id, "a"] == [1, 2, 3]


def test_places_that_clients_make_up_are_not_remembered(api, run):
    """Each is another place, whose answer nobody else shares."""
    hub = api.service.hub
    with writer(api, run) as metrics:
        metrics.write(records(1, {"a": 1.0}))
        metrics.flush()
        for n in range(20):
            look(hub, listen(api, run, ("metrics",), f'["",[["forged{n}",0,0]],{{}}]'))
    assert len(hub._watches[run.id]._encoded) == 1


def test_a_run_that_is_removed_is_told(api):
    store, hub, client = api.service.acting.store, api.service.hub, Reader()
    run = store.create(request())
    listener = listen(api, run, ("runs",))
    client.take(look(hub, listener)[0])
    store.remove(run.id)
    listener.piece = None
    client.take(look(hub, listener)[0])
    assert client.runs[run.id] == {"id": run.id, "removed": True}


@pytest.mark.parametrize("text", ["", "x", "[]", "[1,2,3]", '["m",[["c",-1,0]],{}]', '["m",[],{}]', "[" * 5000])
def test_an_id_that_is_none_begins_anew(text):
    assert decode(text, 1) is None


def test_a_position_survives_its_text():
    position = decode('["2026-01-01T00:00:00.000+00:00",[["12.ab",3,4]],{"queue":"d"}]', 1)
    assert isinstance(position, StreamPosition)
    assert decode(position.id, 1) == position


def test_the_stream_ends_when_the_server_ends(api, run):
    """Over the whole application: the first bytes are there, and `stopping` ends it."""
    answers = []

    def ask():
        answers.append(api.ask("GET", f"/stream?runs={run.id}&topics=metrics,runs"))

    thread = threading.Thread(target=ask)
    thread.start()
    while api.service.streams == 0 and thread.is_alive():
        pass
    api.app.state.stopping.set()
    run_again = api.service.acting.store.annotate(run.id, note="wakes the listener")
    assert run_again.note
    thread.join(60)
    assert answers[0].status == 200
    assert answers[0].headers["content-type"].startswith("text/event-stream")
    for query in ("topics=nonsense", "topics=metrics", f"runs={run.id},nobody"):
        assert api.ask("GET", f"/stream?{query}").status in (404, 422)


@pytest.fixture
def open_stream(api, run, monkeypatch):
    """Opens a stream that often looks whether its caller still counts; returns the thread that reads it."""
    monkeypatch.setattr(stream, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(stream, "CHECK_SECONDS", 0.0)

    def open_stream(access, token=None, headers=()):
        app = made(*routers(), access=access)
        app.state.service = api.service
        target = f"/api/v1/stream?runs={run.id}&topics=metrics"
        thread = threading.Thread(target=ask, args=(app, "GET", target, token), kwargs={"headers": headers})
        thread.start()
        until = time.monotonic() + PATIENCE
        while not api.service.streams and time.monotonic() < until:
            time.sleep(0.01)
        thread.join(0.5)  # many looks
        assert thread.is_alive()
        assert api.service.streams == 1
        return thread

    return open_stream


def test_the_stream_of_a_token_ends_soon_after_that_is_revoked(api, open_stream, tmp_path):
    """It went on for as long as a stream lasts: ten minutes."""
    tokens = Tokens(tmp_path)
    _, secret = tokens.add("laptop", Role.READ)
    thread = open_stream(Access(tokens), secret)
    tokens.revoke("laptop")
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert api.service.streams == 0


@pytest.mark.parametrize("end", ["unused", "signed out", "revoked"])
def test_a_stream_ends_with_its_session_and_does_not_keep_it_alive(api, open_stream, tmp_path, end):
    """Each look at the session counted as a request, so a page that nobody looked at stayed signed in for ever."""
    clock = SimpleNamespace(now=1_800_000_000.0)
    tokens = Tokens(tmp_path, lambda: clock.now)
    _, secret = tokens.add("laptop", Role.READ)
    access = Access(tokens, sessions=BrowserSessions(clock=lambda: clock.now), clock=lambda: clock.now)
    cookie = f"{COOKIE}={access.begin_session(secret)}"
    clock.now += SESSION_SECONDS - 1
    thread = open_stream(access, headers=[("cookie", cookie)])
    if end == "unused":
        clock.now += 2
    elif end == "signed out":
        access.end_session(cookie)
    else:
        tokens.revoke("laptop")
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert api.service.streams == 0
