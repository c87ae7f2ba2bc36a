"""`artifacts/trace.json`: where the time of a run's processes went, and what it says in sums."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rlstudio.core.errors import StorageError
from rlstudio.core.host.trace import LIMIT, TRACE
from rlstudio.storage.folder import Folder

FILE = "artifacts/trace.json"


class SpanSum(NamedTuple):
    """All spans of one name in one process."""

    process: str
    name: str
    times: int
    seconds: float

    @property
    def mean_ms(self) -> float:
        return 1000 * self.seconds / self.times


def keep_trace(run_dir: Path) -> None:
    """Write what this session recorded, if it recorded anything, in place of what an earlier one did."""
    content = TRACE.content()
    TRACE.stop()
    if content:
        Folder(run_dir).replace(FILE, content, durable=False)


def read_trace(run_dir: Path) -> list[SpanSum]:
    """By process, the longest first; nothing where the run has no trace. StorageError where it is damaged."""
    data = Folder(run_dir).read(FILE, limit=2 * LIMIT)
    if data is None:
        return []
    try:
        return sorted(_sums(json.loads(data)), key=lambda one: (one.process != "training", one.process, -one.seconds))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StorageError(f"{run_dir / FILE}: is not a trace: {error}; remove it") from error


def _sums(events: list[dict[str, object]]) -> Iterator[SpanSum]:
    titles, sums = dict[object, str](), dict[tuple[object, str], tuple[int, float]]()
    for event in events:
        if event["ph"] == "M":
            titles[event["pid"]] = json.loads(json.dumps(event["args"]))["name"]
        else:
            key = event["pid"], str(event["name"])
            count, seconds = sums.get(key, (0, 0.0))
            sums[key] = count + 1, seconds + float(str(event["dur"])) / 1e6
    for (pid, name), (count, seconds) in sums.items():
        yield SpanSum(titles.get(pid, f"process {pid}"), name, count, seconds)
