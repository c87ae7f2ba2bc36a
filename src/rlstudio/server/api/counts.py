"""What this process counts while it serves, in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, ProcessCollector, generate_latest


class ServerCounts:
    """Requests by route and status, also those that were refused before a route was looked for; processor seconds,
    memory and descriptors of the process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._answers = Counter(
            "rlstudio_requests", "Requests by route and status.", ["route", "status"], registry=self._registry
        )

    def answered(self, route: str, status: int) -> None:
        self._answers.labels(route, str(status)).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)
