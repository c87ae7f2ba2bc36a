"""What a monitoring system reads: runs by state, workers, streams, requests and the process of the server itself."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from rlstudio.control.store.pages import counts_by_state
from rlstudio.control.store.workers import Workers
from rlstudio.core.run_state import RunState
from rlstudio.core.version import __version__
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Reader

router = APIRouter(tags=["server"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text."}},
)
def metrics(caller: Reader, service: Served) -> Response:
    """Counts of this moment and of this process, in the text format of Prometheus."""
    text = generate_latest(_counts(service)) + service.counts.text()
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _counts(service: Service) -> CollectorRegistry:
    registry, workspace = CollectorRegistry(), service.looking
    counts = {} if workspace.is_empty else counts_by_state(workspace.records.database)
    workers = [] if workspace.is_empty else Workers(workspace.records.database).listed()
    runs = Gauge("rlstudio_runs", "Runs of the store by state.", ["state"], registry=registry)
    for state in RunState:
        runs.labels(str(state)).set(counts.get(str(state), 0))
    version = Gauge("rlstudio_info", "Version of the server.", ["version"], registry=registry)
    version.labels(__version__).set(1)
    for name, meaning, value in (
        ("rlstudio_workers", "Workers that serve the queue.", len(workers)),
        ("rlstudio_worker_cpus", "Processor cores that workers have for runs.", sum(w.cpus for w in workers)),
        ("rlstudio_env_steps_per_second", "Of all runs together.", sum(w.throughput for w in workers)),
        ("rlstudio_streams", "Open event streams.", service.streams),
    ):
        Gauge(name, meaning, registry=registry).set(value)
    return registry
