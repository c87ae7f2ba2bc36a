"""What portable numerics cost: `python -m benchmarks.portable [--pairs N]`.

PPO, DQN and SAC as in `same_speed`, trained with `runtime.numerics` native and portable in turns, each run a fresh
process with one thread. A rate is environment steps by seconds of processor time over all epochs after the first two:
other programs on the machine then change it little. A pair's ratio is portable / native.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks.jobs import THREAD_VARIABLES
from benchmarks.page import table
from benchmarks.same_speed import EXPERIMENTS, WARM_UP_EPOCHS, row_of

KINDS = ("native", "portable")
TRAIN = f"""
import json, sys, time
from rlstudio import orchestrator
begun = None
with orchestrator.session(json.loads(sys.argv[1]), runs_dir=sys.argv[2]) as session:
    for tick in session:
        if tick.report and tick.epoch == {WARM_UP_EPOCHS}:
            begun = time.process_time(), tick.env_steps
        elif tick.report and tick.epoch == session.cfg.train.epochs:
            print((tick.env_steps - begun[1]) / (time.process_time() - begun[0]))
"""


def rate_of(case: dict[str, Any], kind: str) -> float:
    """Environment steps by seconds of processor time, of one run."""
    experiment = json.dumps({**case, "runtime": {"numerics": kind}})
    start = [sys.executable, *(("-m", "rlstudio.core.host.portable") if kind == "portable" else ())]
    with tempfile.TemporaryDirectory(prefix="rlstudio-runs-") as runs_dir:
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")}
        command = [*start, "-c", TRAIN, experiment, runs_dir]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def measure(case: dict[str, Any], pairs: int) -> dict[str, list[float]]:
    """Rates by kind, pair by pair; who goes first alternates."""
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for pair in range(pairs):
        for kind in KINDS if pair % 2 == 0 else KINDS[::-1]:
            rates[kind].append(rate_of(case, kind))
        last = "  ".join(f"{kind} {values[-1]:,.0f}" for kind, values in rates.items())
        print(f"{case['name']} pair {pair + 1} of {pairs}: {last} steps/s", file=sys.stderr, flush=True)
    return rates


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.portable", description="The cost of portable numerics.")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each kind and algorithm (default: 5)")
    args = parser.parse_args(argv)
    if args.pairs < 1:
        parser.error(f"--pairs {args.pairs}: at least 1")
    return args


def main() -> int:
    args, rows = arguments(), []
    for case in EXPERIMENTS:
        rates = measure(case, args.pairs)
        rows.append(row_of(case["name"], rates["native"], rates["portable"])[0])
    print(
        table(["training", "native steps/s", "portable steps/s", "portable / native", "middle half", "all pairs"], rows)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
