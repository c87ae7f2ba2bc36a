"""What a monitoring system reads: runs by state, the queue, workers, streams, and the process of the server itself."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

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
    """Counts of this moment, in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Counts(service))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _Counts(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        workspace = self._service.looking
        counts = {} if workspace.is_empty else counts_by_state(workspace.records.database)
        workers = [] if workspace.is_empty else Workers(workspace.records.database).listed()
        runs = GaugeMetricFamily("rlstudio_runs", "Runs of the store by state.", labels=["state"])
        for state in RunState:
            runs.add_metric([str(state)], counts.get(str(state), 0))
        yield runs
        yield GaugeMetricFamily("rlstudio_workers", "Workers that serve the queue.", value=len(workers))
        speed = sum(worker.throughput for worker in workers)
        yield GaugeMetricFamily("rlstudio_env_steps_per_second", "Environment steps of all runs together.", value=speed)
        cores = sum(worker.cpus for worker in workers)
        yield GaugeMetricFamily("rlstudio_worker_cpus", "Processor cores that workers have for runs.", value=cores)
        yield GaugeMetricFamily("rlstudio_streams", "Open event streams.", value=self._service.streams)
        info = GaugeMetricFamily("rlstudio_info", "Version of the server.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
