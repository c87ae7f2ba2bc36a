"""Clients that want to hurt: over both servers, with short deadlines. Each is closed, memory stays bounded, and health
and callers with a token are answered meanwhile."""

from __future__ import annotations

import itertools
import os
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import psutil
import pytest

from rlstudio.server.http.limits import Limits
from rlstudio.server.http.wire.protocol import GuardedProtocol
from rlstudio.server.policy.app import policy_app
from support.deadlines import PATIENCE
from support.export_toys import ship
from support.http_server import SHORT, TOKEN, Client, one_token, received, running
from support.studio import studio

MEGABYTE = 1 << 20


@pytest.fixture(scope="module", params=["serve", "serve-policy"])
def place(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    if request.param == "serve":
        make_app = partial(studio, folder / "runs", access=one_token())
        paths = ("/api/v1/health", "/experiments", "/api/v1/me", "/api/v1/openapi.json")
    else:
        make_app = partial(policy_app, ship("ppo-Numbers", folder / "toy", ("bundle",)), access=one_token())
        paths = ("/health", "/act", "/spec", "/spec")
    with running(make_app, limits=SHORT) as server:
        server.health, server.change, server.look, server.large = paths
        yield server


@contextmanager
def served_meanwhile(place):
    """A stranger gets health and a caller what it asks for, on new connections, until the end."""
    failures, is_over, rounds = [], threading.Event(), itertools.count()

    def ask():
        while not is_over.is_set():
            try:
                for token, path in ((None, place.health), (TOKEN, place.look)):
                    client = Client(place, token)
                    if (status := client.ask("GET", path)[0]) != 200:
                        failures.append((path, status))
                    client.close()
                next(rounds)
            except OSError as error:
                failures.append((path, repr(error)))
            is_over.wait(0.02)  # as callers do; the core is the server's

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert next(rounds) > 0
    assert failures == []


def at_once(*clients):
    """What each of them got; all wait for the same deadline."""
    with ThreadPoolExecutor(len(clients)) as threads:
        return [future.result() for future in [threads.submit(client) for client in clients]]


def status_of(answer):
    return int(answer.split()[1]) if answer else None


def answers_in(data):
    return re.findall(rb"HTTP/1\.1 (\d{3}) ", data)


def post(place, **headers):
    return place.head("POST", place.change, Content_Type="application/json", **headers)


def trickle(place, data):
    """Byte by byte, until the server closes; what it said."""
    with place.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in itertools.cycle(data):
            try:
                connection.sendall(bytes([byte]))
            except OSError:
                break
            time.sleep(0.02)
        return received(connection)


def test_s17_a_head_that_trickles_is_cut_off(place):
    """Slow-loris (S17)."""
    with served_meanwhile(place):
        at_once(
            lambda: trickle(place, place.head("GET", place.look)[:-4] + b"\r\nX: 1"),
            lambda: trickle(place, b"GET"),
        )


def test_s17_a_body_that_trickles_is_cut_off(place):
    with served_meanwhile(place):
        silent, trickled = at_once(
            lambda: place.exchange(post(place, Content_Length="50") + b"{"),
            lambda: trickle_body(place),
        )
        assert status_of(silent) == 408
        assert status_of(trickled) in (408, None)


def test_s17_a_body_that_took_too_long_is_answered_also_after_a_pause_of_the_server(tmp_path, monkeypatch):
    receive = GuardedProtocol.data_received

    def received_and_paused(protocol, data):
        receive(protocol, data)
        protocol.loop.call_later(0.1, time.sleep, 2.0)

    monkeypatch.setattr(GuardedProtocol, "data_received", received_and_paused)
    make_app = partial(policy_app, ship("ppo-Numbers", tmp_path / "toy", ("bundle",)), access=one_token())
    with running(make_app, limits=Limits(seconds=0.3)) as place:
        head = place.head("POST", "/act", Content_Type="application/json", Content_Length="50")
        assert status_of(place.exchange(head + b"{")) == 408


def trickle_body(place):
    with place.connect() as connection:
        connection.sendall(post(place, Content_Length="100000"))
        for _ in range(int(PATIENCE / 0.02)):
            try:
                connection.sendall(b" ")
            except OSError:
                break
            time.sleep(0.02)
        return received(connection)


def test_s16_a_body_is_not_kept_beyond_its_bound(place):
    """Resource exhaustion by bodies (S16): refused by its length, or while it is counted."""
    before = psutil.Process().memory_info().rss
    for length in (MEGABYTE + 1, 64 * MEGABYTE, 10**18):
        assert status_of(place.exchange(post(place, Content_Length=length))) == 413
    with served_meanwhile(place):
        for _ in range(4):
            assert (
                status_of(flood(place, post(place, Transfer_Encoding="chunked"), b"10000\r\n" + b" " * 65536 + b"\r\n"))
                == 413
            )
            assert status_of(flood(place, post(place, Content_Length=64 * MEGABYTE), b" " * 65536)) in (413, None)
            assert status_of(
                flood(place, place.head("POST", place.change, None, Content_Length=64 * MEGABYTE), b" " * 65536)
            ) in (401, 413, None)
    assert psutil.Process().memory_info().rss - before < 64 * MEGABYTE


def flood(place, head, piece, pieces=512):
    with place.connect() as connection:
        try:
            connection.sendall(head)
            for _ in range(pieces):
                connection.sendall(piece)
        except OSError:
            pass
        return received(connection)


def test_s16_heads_ranges_and_codings_are_bounded(place):
    head = place.head("GET", place.look)
    many = b"".join(b"x-%d: 1\r\n" % number for number in range(10_000))
    with served_meanwhile(place):
        assert status_of(place.exchange(head[:-2] + many + b"\r\n")) in (431, None)
        assert status_of(place.exchange(head[:-2] + many[:2000] + b"\r\n")) == 431
        assert status_of(place.exchange(head[:-2] + b"x: " + b"1" * 300_000 + b"\r\n\r\n")) in (431, None)
        assert status_of(place.exchange(place.head("GET", "/" + "a" * 9000))) == 414
        ranges = "bytes=" + ",".join(f"{number}-" for number in range(1000))
        assert status_of(place.exchange(place.head("GET", place.look, Range=ranges))) == 416
        assert (
            status_of(place.exchange(post(place, Content_Length=5, Content_Encoding="gzip") + b"\x1f\x8b\x08\x00\x00"))
            == 415
        )


@pytest.mark.parametrize(
    "chunk", [b"zz\r\n", b"-1\r\n", b"5\r\nab\r\n0\r\n\r\n", b"FFFFFFFFFFFFFFFFFFFFF\r\n", b"\r\n"]
)
def test_chunks_that_are_malformed(place, chunk):
    answer = place.exchange(post(place, Transfer_Encoding="chunked") + chunk)
    assert status_of(answer) in (400, 408, 413)
    assert len(answers_in(answer)) == 1


def test_b9_a_length_of_thousands_of_digits_is_no_error_of_ours(place):
    answer = place.exchange(post(place, Content_Length="9" * 5000))
    assert status_of(answer) in (400, 413)
    assert status_of(place.exchange(post(place, Content_Length="0" * 5000 + "1"))) in (400, 413)


@pytest.mark.parametrize("lengths", [("0", "36"), ("36", "0"), ("36", "37"), ("0, 36",), ("+36",), ("0x24",), ("3_6",)])
def test_b10_two_lengths_are_one_refusal_and_nothing_after_it(place, lengths):
    """Request smuggling: what one reader takes for a body is no second request for another."""
    smuggled = b"GET " + place.health.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    for method in ("GET", "POST"):
        lines = "".join(f"Content-Length: {length}\r\n" for length in lengths).encode()
        head = place.head(method, place.look, Content_Type="application/json")[:-2] + lines
        answer = place.exchange(head + b"\r\n" + smuggled)
        assert answers_in(answer) == [b"400"]
        both = place.exchange(head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled)
        assert answers_in(both) == [b"400"]
    other = place.exchange(
        place.head("POST", place.change, Transfer_Encoding="gzip, chunked") + b"0\r\n\r\n" + smuggled
    )
    assert len(answers_in(other)) == 1
    assert status_of(other) in (400, 501)


def test_pipelined_requests_are_answered_one_by_one(place):
    with place.connect() as connection:
        connection.sendall(place.head("GET", place.look) * 50 + place.head("GET", place.look, Connection="close"))
        assert answers_in(received(connection)) == [b"200"] * 51


def send_without_end(connection, data):
    while True:
        connection.sendall(data)


def test_a_client_that_does_not_read_is_left(place):
    many = place.head("GET", place.large) * 100
    with served_meanwhile(place), place.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with pytest.raises(OSError):  # noqa: PT011 - reset or broken pipe, as it happens
            send_without_end(connection, many)


def test_half_a_close_and_less_than_promised(place):
    for data in (
        b"",
        b"GET / HT",
        place.head("GET", place.look),
        post(place, Content_Length=50) + b"{",
        b"\x16\x03\x01\x02\x00",
    ):
        with place.connect() as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert len(answers_in(received(connection))) <= 1


def test_200_idle_connections_are_closed_and_keep_nobody_out(place):
    with ExitStack() as held, served_meanwhile(place):
        idle = [held.enter_context(place.connect()) for _ in range(200)]
        for connection in idle:
            assert received(connection) == b""


def test_37_clients_without_a_token_cannot_take_the_places_of_those_with_one(place):
    """A hundred that trickle and come back at once, and one with a token who asks on once all of them are there."""
    is_over = threading.Event()
    are_there = [threading.Event() for _ in range(4)]

    def crowd(is_there):
        while not is_over.is_set():
            with ExitStack() as held:
                try:
                    mine = [held.enter_context(place.connect()) for _ in range(25)]
                    is_there.set()
                    for connection in mine * 4:
                        connection.sendall(b"G")
                        time.sleep(0.005)
                except OSError:
                    continue

    threads = [threading.Thread(target=crowd, args=[is_there]) for is_there in are_there]
    kept = Client(place)
    assert kept.ask("GET", place.look)[0] == 200
    for thread in threads:
        thread.start()
    try:
        assert all(is_there.wait(PATIENCE) for is_there in are_there)
        for _ in range(10):
            assert kept.ask("GET", place.look)[0] == 200
            fresh = Client(place)
            assert fresh.ask("GET", place.look)[0] == 200
            fresh.close()
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        kept.close()


def test_no_descriptor_is_left(place):
    deadline = time.monotonic() + PATIENCE
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        place.exchange(b"nonsense\r\n\r\n")
    while len(os.listdir("/proc/self/fd")) > before + 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before + 3
