"""`logs`: what happened in a run and what it measured, in one stream by time."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from rlstudio.cli.commands.looking.logs import ACTIVE, LINE_METRICS, POLL_SECONDS, write_json, write_lines
from rlstudio.cli.remote.selection import of_word
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.client import Client
from rlstudio.client.documents import RunDocument
from rlstudio.core.errors import UserError
from rlstudio.experiment.metrics.records import Record

POINTS = 10_000
PIECE = 1 << 20


def logs(client: Client, run: str, follow: bool, json: bool, output: bool) -> None:
    if output and (follow or json):
        raise UserError("--output: goes with neither --follow nor --json; leave it or them out")
    (one, *others) = of_word(client, run)
    if others:
        raise UserError(f"{run}: {len(others) + 1} runs have this name; give the id of one of them")
    if output:
        _print_output(client, one["id"], stdout())
        return
    write, names = (write_json, None) if json else (write_lines, [*LINE_METRICS])
    _Stream(client, one["id"], stdout(), write, names).run(follow)


def follow_run(client: Client, run_id: str, out: Terminal) -> RunDocument:
    """Print what happens until it ends; the run as it is then."""
    return _Stream(client, run_id, out, write_lines, [*LINE_METRICS]).run(True)


def _print_output(client: Client, run_id: str, out: Terminal) -> None:
    offset, begun = 0, ""
    while (piece := client.runs.log(run_id, offset, PIECE))["end"] > piece["offset"]:
        offset = piece["end"]
        *whole, begun = (begun + piece["text"]).split("\n")
        for line in whole:
            out.line(line.removesuffix("\r"))
    if begun:
        out.line(begun)
    if not offset:
        raise UserError(f"run {run_id}: has printed nothing so far")


class _Stream:
    """Asks again and again: what happened since, and what was measured since."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        out: Terminal,
        write: Callable[[Terminal, list[dict[str, object]], list[Record]], None],
        names: list[str] | None,
    ) -> None:
        self._client, self._id, self._out, self._write = client, run_id, out, write
        self._names = names or ()
        self._seq, self._cursor = 0, ""

    def run(self, follow: bool) -> RunDocument:
        while True:
            run = self._client.runs.get(self._id)  # first: what it wrote before it ended is then there
            self._print_new()
            if not follow or run["state"] not in ACTIVE:
                return run
            time.sleep(POLL_SECONDS)

    def _print_new(self) -> None:
        events: list[dict[str, object]] = []
        while items := self._client.runs.events(self._id, self._seq)["items"]:
            self._seq = items[-1]["seq"]
            events += [_event(dict(item)) for item in items]
        answer = self._client.runs.series(self._id, self._names, points=POINTS, after=self._cursor or None)
        is_new = not self._cursor or not answer["complete"]
        self._cursor = answer["next"]
        records = _records(answer["series"]) if is_new else []
        self._write(self._out, events, records)
        self._out.flush()


def _event(item: dict[str, Any]) -> dict[str, object]:
    """As the run itself wrote it."""
    return {"ts": item.pop("time"), "kind": item.pop("kind"), **{k: v for k, v in item.items() if k != "seq"}}


def _records(series: Any) -> list[Record]:
    """In the order in which they were measured."""
    records = [
        Record(float(ts), int(step), name, float("nan") if value is None else value)
        for name, curve in series.items()
        for step, value, ts in zip_longest(curve["x"], curve["y"], curve.get("clock", []), fillvalue=0.0)
    ]
    return sorted(records, key=lambda record: (record.step, record.ts))
