"""How long one observation takes over HTTP: `python -m benchmarks.serving [BUNDLE]`.

Trains PPO on CartPole for a moment and exports it (or takes a bundle), starts `rlctl serve-policy` as a process of its
own, and asks it on one kept connection over the loopback address. The target is a p99 below 5 ms for one observation.
Run it on a machine with nothing else to do: what it measures is mostly the scheduler otherwise. CartPole's numbers go
to `results/serving.json` and the table to `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks.page import replace_between, table
from benchmarks.records import provenance, write_result
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours

PAGE = ROOT / "docs" / "benchmarks.md"
TARGET_MS = 5.0
PROGRAM = [sys.executable, "-c", "from rlstudio.cli.app import main; raise SystemExit(main())"]
EXPERIMENT = ["--algo", "ppo", "--env", "CartPole-v1", "train.epochs=2", "eval.every_epochs=0", "--quiet"]


def exported(folder: Path) -> Path:
    runs = folder / "runs"
    for arguments in (["launch", *EXPERIMENT], ["export", "last", "--format", "onnx", "-o", str(folder / "bundle")]):
        subprocess.run([*PROGRAM, *arguments, "--runs-dir", str(runs)], check=True, stdout=subprocess.DEVNULL)
    return folder / "bundle"


@contextmanager
def served(bundle: Path, folder: Path) -> Iterator[http.client.HTTPConnection]:
    """A server of its own, and a connection to it."""
    command = [*PROGRAM, "serve-policy", str(bundle), "--port", "0", "--no-auth"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split(" at ")[1].split(",")[0]
            connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
            yield connection
            connection.close()
        finally:
            server.terminate()


def measure(connection: http.client.HTTPConnection, rows: int, requests: int, shape: Sequence[int]) -> list[float]:
    """Milliseconds of each request, from the first byte sent to the last received."""
    body = json.dumps({"observations": np.zeros((rows, *shape)).tolist()}).encode()
    times = []
    for _ in range(requests + 100):
        begin = time.perf_counter()
        connection.request("POST", "/act", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        times.append((time.perf_counter() - begin) * 1000)
        assert answer.status == 200, data
    return times[100:]  # the first ones warm up


def summary(times: Sequence[float]) -> dict[str, float]:
    """What is stored of the requests with one number of rows, and is on the page."""
    p50, p99, p999 = np.percentile(times, (50, 99, 99.9)).tolist()
    return {"p50": p50, "p99": p99, "p99.9": p999, "max": max(times), "mean": sum(times) / len(times)}


def page(found: dict[str, dict[str, float]]) -> str:
    rows = []
    for count, ms in found.items():
        met = "" if count != "1" else "yes" if ms["p99"] < TARGET_MS else "**no**"
        rate = int(count) * 1000 / ms["mean"]
        rows.append([count, *(f"{ms[name]:.2f}" for name in ("p50", "p99", "p99.9", "max")), f"{rate:,.0f}", met])
    header = ["rows of a request", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "rows/s", f"p99 < {TARGET_MS:g} ms"]
    return table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description="Latency of a served policy.")
    parser.add_argument("bundle", nargs="?", type=Path, help="of a policy over a row of numbers; none: CartPole")
    parser.add_argument("--requests", type=int, default=5000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = args.bundle or exported(folder)
        shape = json.loads((bundle / "spec.json").read_text())["observation"]["shape"]
        with served(bundle.resolve(), folder) as connection:
            times = {str(rows): measure(connection, rows, args.requests, shape) for rows in (1, 16, 256)}
    found = {rows: summary(taken) for rows, taken in times.items()}
    text = page(found)
    if args.bundle is None:
        result = {"requests": args.requests, "ms": found}
        write_result("serving", {**result, **provenance({OURS: ours().versions})})
        replace_between(PAGE, "serving", text)
    print(text)


if __name__ == "__main__":
    main()
