"""What a policy server counts, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
PREFIX = "rlstudio_policy"


class ServingMetrics:
    """Safe to use from many threads."""

    def __init__(self, name: str) -> None:
        self._labels = f'policy="{_escaped(name)}"'
        self._lock = Lock()
        self._counts = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._rows = 0
        self._answers: dict[tuple[str, int], int] = {}

    def acted(self, seconds: float, rows: int) -> None:
        """One `POST /act` that was answered with actions."""
        with self._lock:
            self._counts[bisect_left(BUCKETS, seconds)] += 1
            self._seconds += seconds
            self._rows += rows

    def answered(self, route: str, status: int) -> None:
        with self._lock:
            key = (route, status)
            self._answers[key] = self._answers.get(key, 0) + 1

    def text(self) -> str:
        with self._lock:
            counts, seconds, rows, answers = list(self._counts), self._seconds, self._rows, dict(self._answers)
        latency = f"{PREFIX}_latency_seconds"
        lines = [
            f"# HELP {latency} Time from a request's first byte to its answer.",
            f"# TYPE {latency} histogram",
        ]
        total = 0
        for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
            total += count
            lines.append(f'{latency}_bucket{{{self._labels},le="{bound}"}} {total}')
        lines += [f"{latency}_sum{{{self._labels}}} {seconds!r}", f"{latency}_count{{{self._labels}}} {total}"]
        lines += [
            f"# HELP {PREFIX}_actions_total Actions given.",
            f"# TYPE {PREFIX}_actions_total counter",
            f"{PREFIX}_actions_total{{{self._labels}}} {rows}",
            f"# HELP {PREFIX}_requests_total Requests by route and status.",
            f"# TYPE {PREFIX}_requests_total counter",
        ]
        for (route, status), count in sorted(answers.items()):
            lines.append(f'{PREFIX}_requests_total{{{self._labels},route="{route}",status="{status}"}} {count}')
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
