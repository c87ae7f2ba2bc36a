"""Does a change leave RLStudio as fast as it was? `python -m benchmarks.same_speed [--base REV] [--pairs N]`.

The commit REV is checked out in a temporary worktree; without --base it is the one where this branch left `main`, or on
`main` itself HEAD~1. PPO, DQN and SAC are trained by that tree and by the working tree in pairs, who goes first
alternates, each run a fresh process with one thread. A rate is what the run's `time/steps_per_second` says over all
epochs after the first two; a pair's ratio is new / base. Exit status 1 when a median ratio is below 0.97, 2 when a run
fails. Then come whole commands, `rlctl --help` and `rlctl ls`, in turns too; they decide nothing. About a quarter of an
hour on an idle machine; on a busy one the spread says what the medians are worth.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import harmonic_mean, median
from typing import Any

import numpy as np

from benchmarks.page import table
from benchmarks.trees import STATED, CommandFailed, Tree, metric_records, run_folder, two_trees

LEAST = 0.97
"""Median ratio below which the working tree counts as slower."""
WARM_UP_EPOCHS = 2
COMMAND_REPEATS = 10
LISTED_RUNS = 5
RATE = "time/steps_per_second"
NO_EVALUATION = {"every_epochs": 0, "final_episodes": 1}


def experiment(algo: str, env: dict[str, Any], hidden_sizes: list[int], train: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": algo,
        "env": {**env, "vectorization": "native", "seed": 1},
        "policy": {"algo": algo, "network": {"hidden_sizes": hidden_sizes, **STATED}},
        "train": train,
        "buffer": {"capacity": 100_000},
        "eval": NO_EVALUATION,
    }


# Each trains for three to six seconds of one core; learning starts within the epochs of the warm-up.
EXPERIMENTS = (
    experiment(
        "ppo",
        {"id": "CartPole-v1", "num_envs": 8},
        [64, 64],
        {"epochs": 14, "steps_per_epoch": 4096, "rollout_steps": 128, "passes": 4, "batch_size": 256},
    ),
    experiment(
        "dqn",
        {"id": "CartPole-v1", "num_envs": 1},
        [120, 84],
        {"epochs": 14, "steps_per_epoch": 512, "batch_size": 128, "learning_starts": 500, "train_every": 4},
    ),
    experiment(
        "sac",
        {"id": "Pendulum-v1", "num_envs": 1},
        [64, 64],
        {"epochs": 14, "steps_per_epoch": 64, "batch_size": 256, "learning_starts": 100},
    ),
)


def steps_per_second(records: Sequence[dict[str, Any]]) -> float:
    """Steps by seconds of all epochs after the warm-up: epochs are equally long, so their rates' harmonic mean."""
    rates = [record["value"] for record in records if record["key"] == RATE][WARM_UP_EPOCHS:]
    if not rates:
        raise CommandFailed(f"the run wrote {RATE} for no epoch after the first {WARM_UP_EPOCHS}")
    return harmonic_mean(rates)


def in_turns(trees: tuple[Tree, Tree], repeat: int) -> tuple[Tree, ...]:
    """Who goes first alternates."""
    return trees if repeat % 2 == 0 else trees[::-1]


def measure(case: dict[str, Any], trees: tuple[Tree, Tree], pairs: int, place: Path) -> dict[str, list[float]]:
    """Rates of both trees, by title, pair by pair."""
    rates: dict[str, list[float]] = {tree.title: [] for tree in trees}
    for pair in range(pairs):
        for tree in in_turns(trees, pair):
            runs_dir = place / tree.title / f"{case['name']}-{pair}"
            tree.launch(case, runs_dir, place)
            rates[tree.title].append(steps_per_second(metric_records(run_folder(runs_dir))))
        last = "  ".join(f"{title} {values[-1]:,.0f}" for title, values in rates.items())
        print(f"{case['name']} pair {pair + 1} of {pairs}: {last} steps/s", file=sys.stderr, flush=True)
    return rates


def row_of(name: str, base: Sequence[float], new: Sequence[float]) -> tuple[list[str], float]:
    """A row of the table, and the median ratio new / base of the pairs."""
    ratios = [mine / other for mine, other in zip(new, base, strict=True)]
    low, high = np.percentile(ratios, [25, 75])
    middle = median(ratios)
    rates = [f"{median(side):,.0f}" for side in (base, new)]
    return [
        name,
        *rates,
        f"{middle:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
    ], middle


def measure_commands(trees: tuple[Tree, Tree], place: Path) -> list[list[str]]:
    """Median seconds of whole commands; each tree lists runs of its own, since what it stores may differ."""
    short = experiment("ppo", {"id": "CartPole-v1", "num_envs": 8}, [16], {"epochs": 1, "steps_per_epoch": 256})
    for tree in trees:
        (place / tree.title / "empty").mkdir(parents=True)
        tree.launch(short, place / tree.title / "few", place, "--seeds", str(LISTED_RUNS))
    rows = []
    for name, folder in {"--help": None, "ls, no runs": "empty", f"ls, {LISTED_RUNS} runs": "few"}.items():
        seconds: dict[str, list[float]] = {tree.title: [] for tree in trees}
        for repeat in range(COMMAND_REPEATS + 1):
            for tree in in_turns(trees, repeat):
                listing = ["ls", "--runs-dir", str(place / tree.title / str(folder))]
                seconds[tree.title].append(_wall_time(tree, ["--help"] if folder is None else listing, place))
        # The first call of each is for the disk's cache.
        base, new = (median(seconds[tree.title][1:]) for tree in trees)
        rows.append([f"rlctl {name}", f"{base:.3f} s", f"{new:.3f} s", f"{new / base:.2f}"])
    return rows


def _wall_time(tree: Tree, arguments: list[str], place: Path) -> float:
    command, environment = tree.command(*arguments), tree.environment(place)
    started = time.perf_counter()
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise CommandFailed(f"rlctl {' '.join(arguments)}: exit status {done.returncode}: {done.stderr.strip()}")
    return seconds


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_speed", description="Speed of two trees, compared."
    )
    parser.add_argument("--base", metavar="REV", help="the commit; default: where this branch left main, else HEAD~1")
    parser.add_argument("--pairs", type=int, default=15, help="runs of each tree and algorithm (default: 15)")
    names = [case["name"] for case in EXPERIMENTS]
    parser.add_argument("--algos", nargs="+", choices=names, default=names, help="which of them (default: all)")
    args = parser.parse_args(argv)
    if args.pairs < 1:
        parser.error(f"--pairs {args.pairs}: at least 1")
    return args


def main() -> int:
    args = arguments()
    rows, ratios = [], []
    try:
        with two_trees(args.base) as (base, new, place):
            for case in (case for case in EXPERIMENTS if case["name"] in args.algos):
                rates = measure(case, (base, new), args.pairs, place)
                row, ratio = row_of(case["name"], rates[base.title], rates[new.title])
                rows.append(row)
                ratios.append(ratio)
            commands = measure_commands((base, new), place)
    except CommandFailed as error:
        print(error, file=sys.stderr)
        return 2
    print(table(["training", "base steps/s", "new steps/s", "new / base", "middle half", "all pairs"], rows))
    print()
    print(table(["command", "base", "new", "new / base"], commands))
    slower = [row[0] for row, ratio in zip(rows, ratios, strict=True) if ratio < LEAST]
    print(f"\nslower than {LEAST} of the base: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
