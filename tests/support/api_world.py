"""The application of the HTTP API over a runs folder, asked in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rlstudio.server.api.routers import PREFIX, routers
from rlstudio.server.api.service import Service
from support.http_app import ACT, Answer, ask, made


class Api:
    """`api.get("/runs")` below /api/v1, with the token that acts."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.app = made(*routers(), state_dir=service.acting.state_dir)
        self.app.state.service = service

    def ask(self, method: str, path: str, body: Any = b"", token: str = ACT, **headers: str) -> Answer:
        given = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return ask(self.app, method, PREFIX + path, token, body, given)

    def get(self, path: str, **headers: str) -> Any:
        """The document of an answer that must be 200."""
        answer = self.ask("GET", path, **headers)
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, path: str, body: Any = b"", **headers: str) -> Answer:
        return self.ask("POST", path, body, **headers)


@contextmanager
def api_over(runs_dir: Path, **settings: Any) -> Iterator[Api]:
    service = Service(runs_dir, **settings)
    try:
        yield Api(service)
    finally:
        service.close()


def quoted(text: str) -> str:
    return quote(text, safe="")
