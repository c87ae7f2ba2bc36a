"""How fast the service answers: `python -m benchmarks.service [--runs 10000] [--points 1000000] [--seconds 20]`.

Three measurements in a real server process on loopback: pages of a list of many runs; the curve of a run with many
points, the first time and then; a hundred open streams on eight runs that write.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np

from rlstudio.control.runs.folders import folder_of
from rlstudio.control.store.moves import insert_run
from rlstudio.control.store.records import RunRequest
from rlstudio.control.workspace import Workspace
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.run_folder import new_run_id
from rlstudio.experiment.metrics.records import records
from rlstudio.experiment.metrics.writer import MetricsWriter

LISTENERS, WATCHED = 100, 8
SERVER = """
import sys
from pathlib import Path
from rlstudio.server.api.routers import routers
from rlstudio.server.api.service import Service
from rlstudio.server.http.access import Access
from rlstudio.server.http.app import create_app
from rlstudio.server.http.callers import Caller
from rlstudio.server.http.roles import Role
import uvicorn
access, port = Access(), int(sys.argv[2])
access.allow("bench", Caller("bench", Role.ACT))
app = create_app(*routers(), title="RLStudio", access=access, hosts={f"127.0.0.1:{port}"})
app.state.service = Service(Path(sys.argv[1]))
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
"""


def request(name: str) -> RunRequest:
    return RunRequest(name=name, algo="ppo", env_id="CartPole-v1", config_yaml="a: 1\n", config_hash="abc")


def fill(workspace: Workspace, runs: int, points: int) -> tuple[str, list[str]]:
    """Many runs in the store, one long run, and some that a process of ours has."""
    with workspace.store.database.write() as connection:  # one transaction: the disk is not what is measured
        for number in range(runs):
            insert_run(connection, request(f"run-{number % 500}"), run_id=new_run_id("ppo", "CartPole-v1"))
    long = workspace.store.create(request("long"))
    folder_of(workspace, long).close()
    writer, values = (
        MetricsWriter(workspace.folder(long.id).path),
        np.random.default_rng(0).normal(size=(points // 10, 10)),
    )
    names = [f"train/metric_{n}" for n in range(10)]
    for step, row in enumerate(values):
        writer.write(records(step, dict(zip(names, row.tolist(), strict=True))))
        if step % 1000 == 0:
            writer.flush()
    writer.flush()
    writer.close()
    watched = []
    for _ in range(WATCHED):
        run = workspace.store.create(request("watched"), owner=this_process())
        folder_of(workspace, run).close()
        watched.append(workspace.store.move(run.id, run.token, RunState.RUNNING).id)
    return long.id, watched


def timed(client: httpx.Client, url: str, times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        client.get(url).raise_for_status()
        seconds.append(time.perf_counter() - started)
    return seconds


def p95(seconds: list[float]) -> float:
    return 1000 * float(np.quantile(seconds, 0.95))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Stream(threading.Thread):
    """One listener; `delays` are the seconds from the time in a point to its arrival."""

    def __init__(self, url: str, until: float) -> None:
        super().__init__(daemon=True)
        self.url, self.until = url, until
        self.delays: list[float] = []
        self.points = 0

    def run(self) -> None:
        with httpx.stream("GET", self.url, headers=TOKEN, timeout=None) as answer:
            for line in answer.iter_lines():
                now = time.time()
                if line.startswith('data: {"run"') and '"series"' in line:
                    for curve in json.loads(line[6:])["series"].values():
                        self.points += len(curve["clock"])
                        self.delays += [now - moment for moment in curve["clock"]]
                if now > self.until:
                    return


TOKEN = {"Authorization": "Bearer bench"}


def listen(workspace: Workspace, base: str, watched: list[str], pid: int, seconds: float) -> dict[str, float]:
    url = f"{base}/stream?runs={','.join(watched)}&topics=metrics"
    until = time.time() + seconds + 5
    streams = [Stream(url, until) for _ in range(LISTENERS)]
    for stream in streams:
        stream.start()
    time.sleep(3)
    writers = [MetricsWriter(workspace.folder(run).path) for run in watched]
    started, before, written = time.monotonic(), cpu_seconds(pid), 0
    while time.monotonic() - started < seconds:
        for writer in writers:
            writer.write(records(written, {"train/loss": float(written), "rollout/return_mean": 1.0}))
            writer.flush()
        written += 1
        time.sleep(0.5)
    time.sleep(2)
    wall, spent = time.monotonic() - started, cpu_seconds(pid) - before
    for writer in writers:
        writer.write(records(written, {"end": 1.0}))
        writer.flush()
    time.sleep(max(0.0, until - time.time()))
    for writer in writers:
        writer.write(records(written + 1, {"end": 2.0}))
        writer.flush()
    for stream in streams:
        stream.join(15)
    missing = sum(max(0, 2 * WATCHED * written - stream.points) for stream in streams)
    delays = [delay for stream in streams for delay in stream.delays]
    return {"cpu_share": 100 * spent / wall, "worst_delay": max(delays), "missing": missing, "points": len(delays)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(Path(place) / "runs")
        long, watched = fill(workspace, asked.runs, asked.points)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([sys.executable, "-c", SERVER, str(workspace.runs_dir), str(port)])
        try:
            base = f"http://127.0.0.1:{port}/api/v1"
            with httpx.Client(headers=TOKEN, timeout=120) as client:
                while True:
                    try:
                        client.get(f"{base}/health").raise_for_status()
                        break
                    except httpx.TransportError:
                        time.sleep(0.2)
                timed(client, f"{base}/runs?limit=100", 3)
                pages = [f"{base}/runs?limit=100{more}" for more in ("", "&sort=name", "&state=queued", "&q=run-7")]
                listed = [second for url in pages for second in timed(client, url, 25)]
                print(f"list of {asked.runs:,} runs, a page of 100: p95 {p95(listed):.0f} ms")
                curve = f"{base}/runs/{long}/series?names=train/metric_3&points=500"
                first = timed(client, curve, 1)[0]
                then = timed(client, curve, 50)
                print(f"curve of {asked.points:,} points: first {first:.2f} s, then p95 {p95(then):.0f} ms")
            result = listen(workspace, base, watched, server.pid, asked.seconds)
            print(
                f"{LISTENERS} streams on {WATCHED} runs: {result['cpu_share']:.1f} % of a core, the slowest of"
                f" {result['points']:,.0f} points after {result['worst_delay']:.2f} s, {result['missing']:.0f} missing"
            )
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
