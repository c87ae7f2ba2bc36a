"""What do sinks cost the process that trains? `python -m benchmarks.sinks [--pairs N] [--steps N]`.

PPO on CartPole with the JSON lines alone, and with all sinks at once (CSV, TensorBoard, MLflow in a file, W&B offline),
in pairs; who goes first alternates, each run is a fresh process with one thread. Counted are the CPU seconds of the
training process itself, per million steps, from when every sink has taken up its first records to the last step. The
seconds before are start-up and stand beside: importing the tools keeps another core busy for some seconds, and caches
are shared. Exit status 1 where the median ratio of the pairs is above 1.02. The CPU seconds of the process that feeds
the sinks are printed too; they decide nothing. `--store` keeps the numbers for `make kpi`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.jobs import THREAD_VARIABLES
from benchmarks.page import table
from benchmarks.records import provenance, write_result
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours

MOST = 1.02
EPOCH_STEPS = 4096
WARM_UP_EPOCHS, MOST_WARM_UP_EPOCHS = 16, 200
"""That pass at least, and at most, until every sink has begun; the first run also makes the store of MLflow."""

SINKS: dict[str, list[str]] = {"jsonl": [], "all": ["csv", "tensorboard", "mlflow", "wandb"]}
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false", "DO_NOT_TRACK": "1"}


def experiment(side: str, epochs: int) -> dict[str, Any]:
    return {
        "name": side,
        "env": {"id": "CartPole-v1", "num_envs": 8, "vectorization": "native", "seed": 1},
        "policy": {"algo": "ppo", "network": {"hidden_sizes": [64, 64], "activation": "tanh"}},
        "train": {
            "epochs": epochs + MOST_WARM_UP_EPOCHS,
            "steps_per_epoch": EPOCH_STEPS,
            "rollout_steps": 128,
            "passes": 4,
            "batch_size": 256,
        },
        "eval": {"every_epochs": 0, "final_episodes": 1},
        "tracking": {"sinks": SINKS[side], "finish_seconds": 600.0},
    }


def train_one(side: str, epochs: int, folder: str) -> dict[str, float]:
    """In this process: CPU seconds until the warm-up is over, per million steps after it, and of the children."""
    from rlstudio import orchestrator

    fed, warm, last, end = set(SINKS[side]) - {"csv"}, 0.0, 0.0, MOST_WARM_UP_EPOCHS
    with orchestrator.session(experiment(side, epochs), runs_dir=folder) as session:
        run_dir = session.folder.path
        for tick in session:
            if tick.report is None:
                continue
            last = time.process_time()
            if not warm and tick.epoch >= WARM_UP_EPOCHS and fed <= begun_sinks(run_dir):
                warm, end = last, tick.epoch + epochs
            if tick.epoch >= end:
                break
        run = session.folder
    if not warm:
        raise SystemExit(f"after {MOST_WARM_UP_EPOCHS} epochs {sorted(fed - begun_sinks(run_dir))} had not begun")
    failed = [event for event in run.events() if event["kind"] == "sink_failed"]
    if failed:
        raise SystemExit(f"a sink failed: {failed}")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "start_up": warm,
        "per_million": 1e6 * (last - warm) / (epochs * EPOCH_STEPS),
        "feeding": children.ru_utime + children.ru_stime,
    }


def begun_sinks(run_dir: Path) -> set[str]:
    """Those that are fed by the other process and have written down what they have."""
    return {file.name.partition("-")[0] for file in run_dir.glob("artifacts/sinks/*.json")}


def measure(side: str, epochs: int, folder: str) -> dict[str, float]:
    """The same in a fresh process."""
    variables = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), **QUIET}
    command = [sys.executable, "-m", "benchmarks.sinks", "--one", side, "--epochs", str(epochs), "--folder", folder]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side}: {done.stderr.strip()[-500:]}")
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sinks", description="What sinks cost a run.")
    parser.add_argument("--pairs", type=int, default=10, help="runs of each side (default: 10)")
    parser.add_argument("--steps", type=int, default=500_000, help="of each run, after its warm-up (default: 500,000)")
    parser.add_argument("--store", action="store_true", help="keep the numbers in benchmarks/results/sinks.json")
    parser.add_argument("--one", choices=sorted(SINKS), help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.pairs < 1 or args.steps < EPOCH_STEPS:
        parser.error(f"at least 1 pair of {EPOCH_STEPS} steps")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    if args.one:
        print(json.dumps(train_one(args.one, args.epochs, args.folder)))
        return 0
    results: dict[str, list[dict[str, float]]] = {side: [] for side in SINKS}
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(args.pairs):
            for side in SINKS if pair % 2 == 0 else reversed(SINKS):
                results[side].append(measure(side, args.steps // EPOCH_STEPS, folder))
            last = "  ".join(f"{side} {values[-1]['per_million']:.2f}" for side, values in results.items())
            print(f"pair {pair + 1} of {args.pairs}: {last} CPU s per million steps", file=sys.stderr, flush=True)
    names = ("per_million", "start_up", "feeding")
    medians = {side: {name: median(run[name] for run in runs) for name in names} for side, runs in results.items()}
    rows = [[side, *(f"{of[name]:.2f}" for name in names)] for side, of in medians.items()]
    print(table(["sinks", "CPU s per million steps", "start-up, CPU s", "other processes, CPU s"], rows))
    pairs = zip(results["all"], results["jsonl"], strict=True)
    ratios = sorted(mine["per_million"] / other["per_million"] for mine, other in pairs)
    if args.store:
        measured = {"ratios": [round(ratio, 4) for ratio in ratios], "medians": medians}
        write_result("sinks", {**provenance({OURS: ours().versions}), "measurements": measured})
    print(f"ratio: median {median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f}; goal {MOST}")
    return int(median(ratios) > MOST)


if __name__ == "__main__":
    sys.exit(main())
