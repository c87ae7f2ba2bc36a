"""Spans of several processes in one JSON document, of bounded size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rlstudio.core.host import trace as module
from rlstudio.core.host.trace import VARIABLE, Trace
from support.deadlines import PATIENCE

CHILD = """
import time
from rlstudio.core.host.trace import TRACE
TRACE.join("a child")
for _ in range(1000):
    TRACE.span("work", time.perf_counter())
{end}
"""


@pytest.fixture
def trace() -> Iterator[Trace]:
    made = Trace()
    yield made
    made.stop()


def events(trace: Trace) -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = json.loads(trace.content())
    return document


def child(end: str) -> int:
    done = subprocess.run([sys.executable, "-c", CHILD.format(end=end)], timeout=PATIENCE, check=False)
    return done.returncode


def test_switched_off_it_records_nothing(trace: Trace) -> None:
    trace.span("work", 0.0)
    assert (trace.content(), trace.is_on) == (b"", False)
    assert VARIABLE not in os.environ


def test_a_span_has_its_process_thread_and_times(trace: Trace) -> None:
    trace.start("training")
    trace.span("collect", 1.0, 1.5)
    started = time.perf_counter()
    trace.span("update", started)
    name, collect, update = events(trace)
    assert name == {"name": "process_name", "ph": "M", "pid": os.getpid(), "args": {"name": "training"}}
    assert (collect["ph"], collect["ts"], collect["dur"], collect["pid"]) == ("X", 1e6, 5e5, os.getpid())
    assert update["ts"] == pytest.approx(started * 1e6, abs=1)
    trace.stop()
    assert VARIABLE not in os.environ
    assert trace.content() == b""


def test_processes_that_it_starts_take_part(trace: Trace) -> None:
    trace.start("training")
    trace.span("before", 0.0)
    assert child("TRACE.stop()") == 0
    trace.span("after", 0.0)
    recorded = events(trace)
    titles = {event["pid"]: event["args"]["name"] for event in recorded if event["ph"] == "M"}
    assert sorted(titles.values()) == ["a child", "training"]
    assert [event["name"] for event in recorded if event["pid"] == os.getpid()] == ["process_name", "before", "after"]
    assert sum(titles[event["pid"]] == "a child" and event["name"] == "work" for event in recorded) == 1000


def test_one_that_is_killed_leaves_whole_lines(trace: Trace) -> None:
    trace.start("training")
    assert child("import os; os.kill(os.getpid(), 9)") == -9
    assert sum(event["name"] == "work" for event in events(trace)) == 1000 // module.BUFFERED * module.BUFFERED


def test_without_a_trace_nobody_joins(trace: Trace) -> None:
    trace.join("a child")
    assert not trace.is_on


def test_a_trace_that_is_gone_does_no_harm(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/proc/1/fd/999999")
    trace.join("a child")
    assert not trace.is_on


def test_it_is_bounded(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 50_000)
    trace.start("training")
    for _ in range(10_000):
        trace.span("work", 0.0, 1.0)
    assert not trace.is_on
    assert 30_000 < len(trace.content()) < 50_010
    assert len(events(trace)) > 100
