"""What a policy server counts, in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
PREFIX = "rlstudio_policy"


class ServingMetrics:
    """Of one server, apart from those of others in the process."""

    def __init__(self, name: str) -> None:
        self._registry = CollectorRegistry()
        latency = Histogram(
            f"{PREFIX}_latency_seconds",
            "Time from a request's body to its answer.",
            ["policy"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        rows = Counter(f"{PREFIX}_actions", "Actions given.", ["policy"], registry=self._registry)
        by = ["policy", "route", "status"]
        answers = Counter(f"{PREFIX}_requests", "Requests by route and status.", by, registry=self._registry)
        self._latency, self._rows, self._answers, self._name = latency.labels(name), rows.labels(name), answers, name

    def acted(self, seconds: float, rows: int) -> None:
        """One `POST /act` that was answered with actions."""
        self._latency.observe(seconds)
        self._rows.inc(rows)

    def answered(self, route: str, status: int) -> None:
        self._answers.labels(self._name, route, str(status)).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)
