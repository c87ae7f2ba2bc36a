"""A policy over HTTP: for a robot's controller or a game server beside it.

    POST /act      {"observations": [[...], ...], "carry": {...}} -> {"actions": [...], "carry": {...}}
    GET /health    {"status": "ok"}, the only route without a token
    GET /spec      spec.json of the bundle
    GET /metrics   counts and latencies for Prometheus

Every array is checked against the spaces before the policy gets it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import NoReturn

import numpy as np
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from prometheus_client import CONTENT_TYPE_LATEST

from rlstudio.core.contracts import Agent
from rlstudio.delivery.bundle import SPEC, Bundle
from rlstudio.server.http.access import Access
from rlstudio.server.http.app import create_app
from rlstudio.server.http.callers import PUBLIC, Actor, Reader
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.problems import RequestRefused
from rlstudio.server.policy.metrics import ServingMetrics
from rlstudio.server.policy.requests import BadInput, parse_request

JSON = "application/json"


class ServedPolicy:
    """One bundle. Threads share its policy, whose graph may be run by many at once."""

    def __init__(self, bundle: Bundle, max_batch: int) -> None:
        self._policy: Agent = bundle.policy()
        self._space, self._carried = self._policy.spaces.observation, bundle.spec.carry_ports
        self._start = np.asarray(getattr(self._policy.spaces.action, "start", 0) or 0)
        self._max_batch = max_batch
        self.is_slow = bundle.spec.plan is not None
        """A plan takes as long as it likes, so it is made in a thread. A network answers within a fraction of a
        millisecond: the way to a thread and back would take longer."""
        # An agent in NumPy writes into arrays of its own, the graph does not.
        self._turn: contextlib.AbstractContextManager[object] = (
            contextlib.nullcontext() if self._policy.acting == "onnx" else threading.Lock()
        )

    def act(self, body: bytes) -> tuple[dict[str, object], int]:
        """The answer to a body, and how many rows it has."""
        try:
            value = json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "body: is not JSON") from error
        try:
            parsed = parse_request(value, self._space, self._carried, self._max_batch)
        except BadInput as error:
            raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        with self._turn:
            acted = self._policy.step(parsed.observations, parsed.carry)
            actions = acted.actions + self._start if self._start.any() else acted.actions
            answer: dict[str, object] = {"actions": actions[0].tolist() if parsed.single else actions.tolist()}
            if self._policy.remembers:
                carry = acted.carry or {}
                answer["carry"] = {part: (rows[0] if parsed.single else rows).tolist() for part, rows in carry.items()}
        return answer, parsed.rows


def policy_app(
    bundle: Bundle,
    *,
    access: Access,
    hosts: Collection[str],
    max_batch: int = 256,
    limits: Limits | None = None,
    complain: Callable[[str], None] = lambda text: None,
) -> FastAPI:
    metrics = ServingMetrics(bundle.spec.name)
    router = _routes(ServedPolicy(bundle, max_batch), bundle.read(SPEC), metrics)
    title = f"Policy {bundle.spec.name}"
    return create_app(
        router, title=title, access=access, hosts=hosts, limits=limits, complain=complain, observe=metrics.answered
    )


def _routes(served: ServedPolicy, spec: bytes, metrics: ServingMetrics) -> APIRouter:
    router = APIRouter()

    @router.get("/health", dependencies=[PUBLIC])
    async def health() -> Response:
        return _json({"status": "ok"})

    @router.get("/spec")
    async def show_spec(caller: Reader) -> Response:
        return Response(spec, media_type=JSON)

    @router.get("/metrics")
    async def show_metrics(caller: Reader) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @router.post("/act")
    async def act(caller: Actor, request: Request) -> Response:
        body, begin = await request.body(), time.perf_counter()
        answer, rows = await run_in_threadpool(served.act, body) if served.is_slow else served.act(body)
        response = _json(answer)
        metrics.acted(time.perf_counter() - begin, rows)
        return response

    return router


def _json(value: object) -> Response:
    return Response(json.dumps(value, allow_nan=False, separators=(",", ":")).encode(), media_type=JSON)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
