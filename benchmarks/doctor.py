"""Does the doctor know how long a run will take? `python -m benchmarks.doctor [--presets NAME ...]`.

For each preset: what `rlctl doctor` expects, and right after it what the run takes from the first train step to its
last evaluation, both in one fresh process with one thread. Exit status 1 where one is more than 30 % off. It times a
machine that others may use meanwhile: run it on a quiet one. `--store` keeps the numbers for `make kpi`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.jobs import THREAD_VARIABLES
from benchmarks.page import table
from benchmarks.records import provenance, write_result
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours

PRESETS = ("ppo/cartpole", "a2c/cartpole", "dqn/cartpole", "ppo/pendulum", "mpc/cartpole")
MOST = 0.3


def measure_one(preset: str) -> dict[str, float]:
    """In this process: seconds expected, and seconds that it took."""
    from rlstudio import orchestrator
    from rlstudio.experiment.config.experiment import load_experiment
    from rlstudio.experiment.doctor.examine import examine
    from rlstudio.experiment.doctor.machine import Machine

    cfg = load_experiment(f"configs/{preset}.yaml")
    with tempfile.TemporaryDirectory() as runs:
        found = examine(cfg, Machine.here(Path(runs)))
        if found.forecast is None:
            raise SystemExit(f"{preset}: {found.advice}")
        with orchestrator.session(cfg, runs_dir=runs) as session:
            began = time.perf_counter()
            for _ in session:
                pass
        return {"expected": found.forecast.seconds, "took": time.perf_counter() - began}


def measure(preset: str) -> dict[str, float]:
    """The same in a fresh process."""
    variables = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")}
    command = [sys.executable, "-m", "benchmarks.doctor", "--one", preset]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{preset}: {done.stderr.strip()[-500:]}")
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def off(values: dict[str, float]) -> float:
    """How far the expectation is from what it took, as a share of that."""
    return values["expected"] / values["took"] - 1


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doctor", description="Is the doctor's forecast right?")
    parser.add_argument("--presets", nargs="+", default=list(PRESETS), help=f"default: {' '.join(PRESETS)}")
    parser.add_argument("--store", action="store_true", help="keep the numbers in benchmarks/results/forecast.json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    if args.one:
        print(json.dumps(measure_one(args.one)))
        return 0
    results = {}
    for preset in args.presets:
        results[preset] = measure(preset)
        print(f"{preset}: {results[preset]}", file=sys.stderr, flush=True)
    if args.store:
        write_result("forecast", {**provenance({OURS: ours().versions}), "measurements": results})
    rows = [[name, f"{of['expected']:.1f}", f"{of['took']:.1f}", f"{off(of):+.0%}"] for name, of in results.items()]
    print(table(["preset", "expected, s", "took, s", "off"], rows))
    return int(any(abs(off(of)) > MOST for of in results.values()))


if __name__ == "__main__":
    sys.exit(main())
