"""A server of made-up documents that answers as the HTTP API does: for what no real runs can fill in a test.

It serves the built dashboard too, counts what it was asked for, and can be stopped and started again at the same port.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.made_up_runs import Document, crowded_curves, made_up_runs, made_up_series, small_curve

STATIC = Path(__file__).parents[2] / "src/rlstudio/server/page/static"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " media-src 'self'; connect-src 'self'"
)


class PageServer:
    def __init__(self, count: int, *, crowd: tuple[int, int] | None = None) -> None:
        self.runs: dict[str, Document] = {run["id"]: run for run in made_up_runs(count)}
        self.crowd = [] if crowd is None else crowded_curves(*crowd)
        self.epochs = 20  # how far the newest run has come
        self.asked: list[str] = []
        self.documents: dict[str, Any] = {}  # by path, for views that have no runs of their own
        self.actions: dict[str, Callable[[Document], Document]] = {}  # what a POST answers, by path
        self.sent: list[tuple[str, Document]] = []
        self._events: list[tuple[int, str, Document]] = []
        self._changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def newest(self) -> Document:
        return next(iter(self.runs.values()))

    def start(self) -> None:
        server = self

        class Bound(_Handler):
            made_up = server

        self._server = _Server(("127.0.0.1", self.port), Bound)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
        with self._changed:
            self._changed.notify_all()

    def publish(self, topic: str, data: Document) -> None:
        with self._changed:
            self._events.append((len(self._events) + 1, topic, data))
            self._changed.notify_all()

    def train(self, epochs: int = 1) -> None:
        """The newest run goes on, as one that trains."""
        run = self.newest
        self.epochs = min(60, self.epochs + epochs)
        run |= {
            "epoch": self.epochs,
            "env_steps": self.epochs * 2048,
            "updated_at": f"2026-11-18T12:00:{self.epochs:02d}",
        }
        self.publish("metrics", {"run": run["id"], "env_steps": run["env_steps"]})
        self.publish("run", run)

    def after(self, seen: int, wait: float) -> list[tuple[int, str, Document]] | None:
        """Events with a larger number; None once the server has stopped."""
        with self._changed:
            if len(self._events) <= seen and self._server is not None:
                self._changed.wait(wait)
            return None if self._server is None else self._events[seen:]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A page that was closed meanwhile takes no answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    made_up: PageServer

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.made_up.asked.append(self.path)
        if not parts.path.startswith("/api/v1"):
            self._file(parts.path)
        elif parts.path == "/api/v1/stream":
            self._stream(parse_qs(parts.query)["topics"][0])
        else:
            found = self._document(parts.path.removeprefix("/api/v1"), parse_qs(parts.query))
            if found is None:
                self._json({"title": "Not Found", "status": 404, "detail": "there is no such run"}, 404)
            else:
                self._json(found)

    def do_POST(self) -> None:
        self._change()

    def do_PATCH(self) -> None:
        self._change()

    def do_DELETE(self) -> None:
        self._change()

    def _file(self, path: str) -> None:
        file = STATIC / (path.lstrip("/") or "index.html")
        if not file.is_file():
            self._send(b"", "text/plain", 404)
            return
        self._send(file.read_bytes(), TYPES[file.suffix], policy=POLICY)

    def _json(self, document: Any, status: int = 200) -> None:
        kind = "application/json" if status < 400 else "application/problem+json"
        self._send(json.dumps(document).encode(), kind, status)

    def _send(self, body: bytes, kind: str, status: int = 200, policy: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if policy:
            self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, topics: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        seen = int(self.headers.get("Last-Event-ID") or len(self.made_up._events))
        self.wfile.write(b"event: hello\ndata: {}\n\n")
        while (events := self.made_up.after(seen, 2.0)) is not None:
            try:
                for number, topic, data in events:
                    if topic not in topics:  # `run` of `runs`
                        continue
                    self.wfile.write(f"id: {number}\nevent: {topic}\ndata: {json.dumps(data)}\n\n".encode())
                seen += len(events)
                if not events:
                    self.wfile.write(b": still here\n\n")
            except OSError:
                return

    def _run(self, ref: str) -> Document | None:
        return next((run for run in self.made_up.runs.values() if ref in (run["id"], run["handle"])), None)

    def _document(self, path: str, query: dict[str, list[str]]) -> Any:
        if path in self.made_up.documents:
            found = self.made_up.documents[path]
            return found(query) if callable(found) else found
        if path == "/me":
            return {"name": "ada", "role": "act"}
        if path == "/runs":
            return self._page(query)
        if path == "/curves":
            return {"metric": "return", "groups": self.made_up.crowd, "notes": []}
        if path == "/compare":
            return {"metric": "return", "direction": "maximize", "groups": [], "notes": []}
        if path == "/sweeps":
            return {"items": []}
        words = path.strip("/").split("/")
        if words[0] != "runs":
            return None
        run = self._run(words[1])
        if run is None:
            return None
        return self._part(run, words[2] if len(words) > 2 else "", query)

    def _page(self, query: dict[str, list[str]]) -> Document:
        runs = list(self.made_up.runs.values())
        if "id" in query:
            runs = [run for run in runs if run["id"] in query["id"]]
        if "q" in query:
            runs = [run for run in runs if query["q"][0] in run["handle"]]
        start, limit = int(query.get("cursor", ["0"])[0]), int(query.get("limit", ["100"])[0])
        items = runs[start : start + limit]
        points = int(query.get("spark", ["0"])[0])
        if points:
            items = [{**run, "spark": small_curve(run, points)} for run in items]
        more = start + limit < len(runs)
        return {"items": items, "next_cursor": str(start + limit) if more else None, "total": len(runs)}

    def _part(self, run: Document, part: str, query: dict[str, list[str]]) -> Any:
        if not part:
            checkpoints = [
                {
                    "step": step,
                    "epoch": step // 2048,
                    "state_hash": f"{step:064x}",
                    "exact": True,
                    "size": 115_474,
                    "tags": tags,
                }
                for step, tags in ((8192, ["best"]), (20480, ["last"]))
            ]
            relatives = [
                {**{name: run[name] for name in ("id", "name", "state", "env_steps", "parent_id")}, "depth": 0}
            ]
            return {
                **run,
                "topology": {"acting": "numpy", "device": "cpu"},
                "seeds": {"seed": run["seed"]},
                "checkpoints": checkpoints,
                "lineage": {"versions": {"torch": "2.13.0"}},
                "relatives": relatives,
            }
        if part == "series":
            return self._series(run, query)
        events = [
            {"seq": seq, "time": 1.77e9, "kind": kind, "reason": "user", "state_hash": "0" * 64}
            for seq, kind in enumerate(("created", "running", "checkpointed", "interrupted", "resumed", "completed"), 1)
        ]
        return {
            "events": {"items": events, "next": len(events)},
            "artifacts": {"items": []},
            "config": {"yaml": f"name: {run['name']}\ntrain:\n  lr: 0.001\n", "config": {}, "changes": None},
            "log": {"text": "epoch 1/60\n", "offset": 0, "end": 11},
        }.get(part)

    def _series(self, run: Document, query: dict[str, list[str]]) -> Document:
        newest = run["id"] == self.made_up.newest["id"]
        epochs = self.made_up.epochs if newest else run["epoch"]
        series = made_up_series(run, epochs)
        after = int(query.get("after", ["0"])[0])
        if after:
            series = {name: _later(one, after * 2048) for name, one in series.items()}
        return {"series": series, "complete": not after, "next": str(epochs)}

    def _change(self) -> None:
        """Runs change as the real ones do; everything else is refused."""
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        self.made_up.asked.append(f"{self.command} {self.path}")
        self.made_up.sent.append((self.path.removeprefix("/api/v1"), body))
        if action := self.made_up.actions.get(self.path.removeprefix("/api/v1")):
            self._json(action(body))
            return
        words = urlsplit(self.path).path.removeprefix("/api/v1/").split("/")
        run = self._run(words[1]) if len(words) > 1 else None
        if run is None:
            self._json({"title": "Not Found", "status": 404, "detail": "there is no such run"}, 404)
        elif self.command == "DELETE":
            del self.made_up.runs[run["id"]]
            self._send(b"", "application/json", 204)
        else:
            states = {"stop": "STOPPING", "resume": "QUEUED"}
            run |= body if self.command == "PATCH" else {"state": states.get(words[-1], run["state"])}
            self.made_up.publish("run", run)
            self._json(run)


def _later(series: Document, step: int) -> Document:
    first = next((index for index, x in enumerate(series["x"]) if x > step), len(series["x"]))
    return {name: values[first:] for name, values in series.items()}


if __name__ == "__main__":
    server = PageServer(10_000)
    print(server.url)
    while True:
        time.sleep(2)
        server.train()
