"""How long one observation takes over HTTP: `python -m benchmarks.serving [BUNDLE]`.

Trains PPO on CartPole for a moment and exports it (or takes a bundle), starts `rlctl serve-policy` as a process of its
own, and asks it on one kept connection over the loopback address. The target is a p99 below 5 ms for one observation.
Run it on a machine with nothing else to do: what it measures is mostly the scheduler otherwise.
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


def measure(connection: http.client.HTTPConnection, rows: int, requests: int, shape: Sequence[int]) -> np.ndarray:
    """Milliseconds of each request, from the first byte sent to the last received."""
    body = json.dumps({"observations": np.zeros((rows, *shape)).tolist()}).encode()
    times = []
    for _ in range(requests + 100):
        begin = time.perf_counter()
        connection.request("POST", "/act", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        times.append(time.perf_counter() - begin)
        assert answer.status == 200, data
    return np.asarray(times[100:]) * 1000  # the first ones warm up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", nargs="?", type=Path, help="of a policy over a row of numbers; none: CartPole")
    parser.add_argument("--requests", type=int, default=5000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = arguments.bundle or exported(folder)
        shape = json.loads((bundle / "spec.json").read_text())["observation"]["shape"]
        print("| rows | requests | p50 ms | p99 ms | p99.9 ms | max ms | rows/s |")
        print("|---|---|---|---|---|---|---|")
        with served(bundle.resolve(), folder) as connection:
            for rows in (1, 16, 256):
                times = measure(connection, rows, arguments.requests, shape)
                p50, p99, p999 = np.percentile(times, (50, 99, 99.9))
                rate = rows * len(times) / times.sum() * 1000
                print(
                    f"| {rows} | {len(times)} | {p50:.2f} | {p99:.2f} | {p999:.2f} | {times.max():.2f} | {rate:,.0f} |"
                )
                if rows == 1 and p99 > TARGET_MS:
                    print(f"the p99 of one observation is above {TARGET_MS} ms", file=sys.stderr)


if __name__ == "__main__":
    main()
