"""`logs`: what happened in a run and what it measured, in one stream by time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Run, RunsDir
from rlstudio.cli.screen import text
from rlstudio.cli.screen.live.progress import KEY_METRICS
from rlstudio.cli.screen.terminal import Terminal, stderr, stdout
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import OWNED, RunState
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.folder.run_folder import RunFolder
    from rlstudio.experiment.metrics.records import Record

    Writer = Callable[[Terminal, list[dict[str, object]], list[Record]], None]

POLL_SECONDS = 0.3
ACTIVE = OWNED | {RunState.QUEUED}
LAST_LOOKS = 7
WAITING = (RunState.QUEUED, RunState.STARTING)
LINE_METRICS = {
    "rollout/return_mean": "train",
    **{f"train/{name}": name for name in KEY_METRICS},
    "eval/return_mean": "eval",
    "time/steps_per_second": "steps/s",
}
KIND_ONLY = ("created", "lineage")
"""Events printed without their fields, which are the whole status or the whole origin: `show` has them."""

DIGEST = re.compile(r"[0-9a-f]{64}")
LONGEST_LINE = 1 << 16
"""Bytes of a line of output; what is longer is printed as several."""

MAX_MOMENT = 2.0**35
"""Seconds since 1970 that a calendar still has a year for."""


def logs(
    run: Run,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the run ends.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print every event and metric as a line of JSON.")] = False,
    output: Annotated[
        bool, typer.Option("--output", help="Print its stdout.log instead: what the run and its environment printed.")
    ] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Print the events and the key metrics of a run."""
    from rlstudio.control.workspace import Workspace

    if output and (follow or json):
        raise UserError("--output: goes with neither --follow nor --json; leave it or them out")
    workspace = Workspace(runs_dir)
    if output:
        _print_output(workspace.folder_to_read(run), stdout())
        return
    if follow:
        _wait_for_start(workspace, run)
    stream = _Stream(workspace, workspace.folder_to_read(run), stdout(), follow, write_json if json else write_lines)
    stream.run()


def _print_output(folder: RunFolder, out: Terminal) -> None:
    """Line by line and escaped: an environment may have printed anything."""
    from rlstudio.storage.folder import Folder

    files = Folder(folder.path)
    if files.kind(folder.log_path.name) is None:
        raise UserError(f"run {folder.id}: has printed nothing so far")
    with files.open(folder.log_path.name) as file:
        while line := file.readline(LONGEST_LINE):
            out.line(line.decode(errors="backslashreplace").removesuffix("\n").removesuffix("\r"))


def _wait_for_start(workspace: Workspace, run: str) -> None:
    """Wait until a worker has started the run: a queued one has no folder and so no events."""
    announced = False
    while (entry := workspace.find(run)).status.state in WAITING and not entry.has_folder:
        if not announced:
            stderr().line(f"run {entry.id}: is in the queue; waiting for it to start")
            announced = True
        time.sleep(POLL_SECONDS)


class _Stream:
    """Prints events and metrics as they are written. The reader of metrics waits for more; each time it has read all
    there are, everything new is printed in the order of time."""

    def __init__(self, workspace: Workspace, folder: RunFolder, out: Terminal, follow: bool, write: Writer) -> None:
        self._workspace, self._folder, self._out, self._write = workspace, folder, out, write
        self._over = not follow
        self._last_looks = LAST_LOOKS
        self._events_written = 0
        self._records: list[Record] = []

    def run(self) -> None:
        from rlstudio.experiment.metrics.reader import read_metrics

        for record in read_metrics(self._folder.path, follow=True, wait=self._caught_up):
            self._records.append(record)

    def _caught_up(self) -> bool:
        """Print what is new; True: read again, also once after the run has ended, for what it wrote last."""
        events = list(self._folder.events())
        self._write(self._out, events[self._events_written :], self._records)
        self._out.flush()
        self._events_written, self._records = len(events), []
        if self._over:
            return False
        state = self._workspace.find(self._folder.id).status.state
        if state not in ACTIVE:
            # An end is recorded in the store first and in the folder a moment later; a kill never in the folder.
            self._last_looks -= 1
            self._over = self._last_looks == 0 or (bool(events) and events[-1].get("kind") == state.lower())
        if not self._over:
            time.sleep(POLL_SECONDS)
        return True


def write_json(out: Terminal, events: list[dict[str, object]], records: list[Record]) -> None:
    lines = [{"type": "event", **event} for event in events]
    lines += [{"type": "metric", **record._asdict()} for record in records]
    for line in sorted(lines, key=lambda line: _moment(line.get("ts"))):
        out.record(line)


def write_lines(out: Terminal, events: list[dict[str, object]], records: list[Record]) -> None:
    lines = [(_moment(event.get("ts")), _event_line(event)) for event in events]
    for _, group in groupby(records, key=lambda record: record.step):
        same = list(group)
        if line := _metrics_line(same):
            lines.append((_moment(same[-1].ts), line))
    for moment, line in sorted(lines, key=lambda entry: entry[0]):
        out.line(f"{datetime.fromtimestamp(moment):%H:%M:%S}  {line}")


def _event_line(event: dict[str, object]) -> str:
    kind = str(event.get("kind"))
    fields = {} if kind in KIND_ONLY else {name: event[name] for name in event if name not in ("ts", "kind")}
    return "  ".join([kind, *(f"{name}={_brief(value)}" for name, value in fields.items() if value not in ("", None))])


def _brief(value: object) -> object:
    """Of a sha256 its beginning, as `show` has it; `--json` has all of it."""
    return value[:12] if isinstance(value, str) and DIGEST.fullmatch(value) else value


def _metrics_line(records: list[Record]) -> str:
    """The key metrics of one epoch; empty where none of them is there."""
    values = {record.key: record.value for record in records}
    columns = [f"{name} {text.number(values[key])}" for key, name in LINE_METRICS.items() if key in values]
    return "  ".join([f"{records[0].step:,} steps", *columns]) if columns else ""


def _moment(value: object) -> float:
    """A time stamp that can be printed; a damaged one sorts first."""
    return float(value) if isinstance(value, int | float) and 0 <= value < MAX_MOMENT else 0.0
