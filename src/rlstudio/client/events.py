"""Server-sent events: what changes, as it changes. A stream that breaks goes on behind the last event that came."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rlstudio.client.connection import ATTEMPTS, PAUSES, ServerConnection
from rlstudio.client.refusals import ServerUnreachable

SILENCE_SECONDS = 30.0
"""The server sends a comment each ten seconds; after three that are missing the connection is lost."""


class StreamEvent(NamedTuple):
    topic: str  # run, metrics, event, log, queue, sweeps, models, hello
    id: str
    data: Any


def parse_events(lines: Iterable[str]) -> Iterator[StreamEvent]:
    """The events in these lines (HTML standard, 9.2); comments and events without data are passed over."""
    topic, identity = "message", ""
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield StreamEvent(topic, identity, _value("\n".join(data)))
            topic, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            topic = value
        elif field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            identity = value


def follow(
    connection: ServerConnection, runs: Sequence[str] = (), topics: Sequence[str] = (), last_id: str = ""
) -> Iterator[StreamEvent]:
    """Events without end; the caller leaves when it has seen enough. Raises when the server stays away."""
    query = {"runs": ",".join(runs) or None, "topics": ",".join(topics) or None}
    failures = 0
    while True:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        try:
            with connection.stream("/stream", query, headers, SILENCE_SECONDS) as response:
                for event in parse_events(response.iter_lines()):
                    failures = 0
                    last_id = event.id or last_id
                    yield event
        except ServerUnreachable:
            failures += 1
            if failures >= ATTEMPTS:
                raise
            connection.pause(PAUSES[min(failures, len(PAUSES)) - 1])
        else:
            connection.pause(PAUSES[0])  # the server ended it, as it does when it is started anew


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
