"""How fast the service answers: `python -m benchmarks.service [--runs 10000] [--points 1000000] [--seconds 20]`.

Three measurements of `rlctl serve`, with everything that it starts, on loopback: pages of a list of many runs; the
curve of a run with many points, the first time and then; a hundred open streams on eight runs that write.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
from sqlalchemy import update

from rlstudio.control.runs.folders import folder_of
from rlstudio.control.store.moves import insert_run
from rlstudio.control.store.records import RunRequest
from rlstudio.control.store.schema import runs as table
from rlstudio.control.workspace import Workspace
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.run_folder import ENDING_LENGTH, new_run_id
from rlstudio.experiment.metrics.records import records
from rlstudio.experiment.metrics.writer import MetricsWriter

LISTENERS, WATCHED = 100, 8


def request(name: str) -> RunRequest:
    return RunRequest(name=name, algo="ppo", env_id="CartPole-v1", config_yaml="a: 1\n", config_hash="abc")


def ids_with_handles(count: int) -> list[str]:
    """As the store draws them: each ends in digits of its own."""
    drawn: dict[str, str] = {}
    while len(drawn) < count:
        run_id = new_run_id("ppo", "CartPole-v1")
        drawn.setdefault(run_id[-ENDING_LENGTH:], run_id)
    return sorted(drawn.values())


def fill(workspace: Workspace, runs: int, points: int) -> tuple[str, list[str]]:
    """Many runs in the store, one long run, and some that a process of ours has."""
    with workspace.store.database.write() as connection:  # one transaction: the disk is not what is measured
        for number, run_id in enumerate(ids_with_handles(runs)):
            insert_run(connection, request(f"run-{number % 500}"), run_id=run_id)
        connection.execute(update(table).values(state=str(RunState.COMPLETED)))  # its scheduler starts none of them
    long = workspace.store.create(request("long"), owner=this_process())
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

    def __init__(self, url: str, headers: dict[str, str], over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.url, self.headers, self.over = url, headers, over
        self.delays: list[float] = []
        self.points = 0
        self.listens = threading.Event()

    def run(self) -> None:
        with httpx.stream("GET", self.url, headers=self.headers, timeout=None) as answer:
            for line in answer.iter_lines():
                now = time.time()
                if line == "event: hello":
                    self.listens.set()
                if line.startswith('data: {"run"') and '"series"' in line:
                    for curve in json.loads(line[6:])["series"].values():
                        self.points += len(curve["clock"])
                        self.delays += [now - moment for moment in curve["clock"]]
                if self.over.is_set():
                    return


def started(runs_dir: Path) -> tuple[subprocess.Popen[str], str, dict[str, str]]:
    """`rlctl serve` once it answers: its process, where its routes are, and the header that it wants."""
    token = runs_dir.with_name("token")
    command = [sys.executable, "-P", "-m", "rlstudio.cli.app", "serve", "--port", "0", "--token-file", str(token)]
    server = subprocess.Popen([*command, "--runs-dir", str(runs_dir)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    said = server.stdout.readline()
    base = said.split(" at ")[1].split("/login")[0] + "/api/v1"
    return server, base, {"Authorization": f"Bearer {token.read_text().strip()}"}


def listen(
    workspace: Workspace, base: str, headers: dict[str, str], watched: list[str], pid: int, seconds: float
) -> dict[str, float]:
    url = f"{base}/stream?runs={','.join(watched)}&topics=metrics"
    over = threading.Event()
    streams = [Stream(url, headers, over) for _ in range(LISTENERS)]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.listens.wait(60)
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
    points = [stream.points for stream in streams]
    over.set()
    for writer in writers:  # so that each has a line more to read
        writer.write(records(written, {"end": 1.0}))
        writer.flush()
    for stream in streams:
        stream.join(15)
    missing = sum(max(0, 2 * WATCHED * written - count) for count in points)
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
        server, base, headers = started(workspace.runs_dir)
        try:
            with httpx.Client(headers=headers, timeout=120) as client:
                timed(client, f"{base}/runs?limit=100", 3)
                pages = [f"{base}/runs?limit=100{more}" for more in ("", "&sort=name", "&state=completed", "&q=run-7")]
                before = cpu_seconds(server.pid)
                listed = [second for url in pages for second in timed(client, url, 25)]
                spent = 1000 * (cpu_seconds(server.pid) - before) / len(listed)
                print(
                    f"list of {asked.runs:,} runs, a page of 100: p50 {1000 * float(np.median(listed)):.0f} ms,"
                    f" p95 {p95(listed):.0f} ms, {spent:.0f} ms of a core"
                )
                curve = f"{base}/runs/{long}/series?names=train/metric_3&points=500"
                before = cpu_seconds(server.pid)
                first = timed(client, curve, 1)[0]
                spent = cpu_seconds(server.pid) - before
                then = timed(client, curve, 50)
                print(
                    f"curve of {asked.points:,} points: first {first:.2f} s, {spent:.2f} s of a core,"
                    f" then p95 {p95(then):.0f} ms"
                )
            result = listen(workspace, base, headers, watched, server.pid, asked.seconds)
            print(
                f"{LISTENERS} streams on {WATCHED} runs: {result['cpu_share']:.1f} % of a core, the slowest of"
                f" {result['points']:,.0f} points after {result['worst_delay']:.2f} s, {result['missing']:.0f} missing"
            )
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
