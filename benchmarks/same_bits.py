"""Does a change leave every result as it was? `python -m benchmarks.same_bits [--base REV]`.

The commit REV is checked out in a temporary worktree. Fourteen short runs (the ten algorithms on native worlds, PPO and
DQN also with `env.vectorization` sync and async) are trained by that tree and by the working tree, on the same machine
with the same interpreter. A run is the same when the last checkpoint has the same `state_hash` and all metrics of the
base without the tag `clock` are equal, bit for bit; what only the working tree measures is named beside them. Exit
status 1 when one differs or fails, 2 when nothing could be compared. Without --base the commit is the one where this
branch left `main`, or on `main` itself HEAD~1. It takes two to three minutes of one core, most of them for starting 29
processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.page import table
from benchmarks.trees import STATED, CommandFailed, Tree, metric_records, run_folder, two_trees

CLOCK = "clock"
DATASET = "same/bits-v0"
TEACHER = "ppo"
CARTPOLE = {"id": "CartPole-v1", "num_envs": 4}
PENDULUM = {"id": "Pendulum-v1", "num_envs": 4}
SHORT = {"epochs": 3, "steps_per_epoch": 256, "batch_size": 64}
FEW = {"epochs": 2, "steps_per_epoch": 64, "batch_size": 64}
REPLAY = {"learning_starts": 128, "train_every": 4, "gradient_steps": 1}
PLANNER = {"kind": "cem", "horizon": 5, "candidates": 16, "iterations": 2}


@dataclass(frozen=True)
class ShortRun:
    """One experiment: the `env` and `train` sections of its file. What is no part of it must not hang on a default
    that the two trees may have differently."""

    algo: str
    env: dict[str, Any]
    train: dict[str, Any]
    vectorization: str = "native"

    @property
    def name(self) -> str:
        return self.algo if self.vectorization == "native" else f"{self.algo}-{self.vectorization}"

    @property
    def experiment(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "env": {**self.env, "vectorization": self.vectorization, "seed": 7},
            "policy": {"algo": self.algo, "network": {"hidden_sizes": [16, 16], **STATED}},
            "train": self.train,
            "buffer": {"capacity": 100_000},
            "eval": {"every_epochs": 2, "episodes": 2, "final_episodes": 2},
        }


PPO = {**SHORT, "rollout_steps": 32, "passes": 2}
DQN = {**SHORT, **REPLAY, "n_step": 3}
RUNS = (
    ShortRun("ppo", CARTPOLE, PPO),
    ShortRun("ppo", CARTPOLE, PPO, "sync"),
    ShortRun("ppo", CARTPOLE, PPO, "async"),
    ShortRun("dqn", CARTPOLE, DQN),
    ShortRun("dqn", CARTPOLE, DQN, "sync"),
    ShortRun("dqn", CARTPOLE, DQN, "async"),
    ShortRun("a2c", CARTPOLE, {"epochs": 3, "steps_per_epoch": 256, "rollout_steps": 16}),
    ShortRun("qrdqn", CARTPOLE, DQN),
    ShortRun("sac", PENDULUM, {**SHORT, **REPLAY}),
    ShortRun("td3", PENDULUM, {**SHORT, **REPLAY}),
    ShortRun("bc", CARTPOLE, {**SHORT, "dataset": DATASET}),
    ShortRun("mpc", CARTPOLE, {"epochs": 2, "steps_per_epoch": 64, "planner": PLANNER}),
    ShortRun("mbmpc", CARTPOLE, {**FEW, **REPLAY, "learning_starts": 32, "n_step": 3, "planner": PLANNER}),
    ShortRun(
        "diffusion",
        PENDULUM,
        {
            **FEW,
            "planner": {"horizon": 4, "candidates": 8, "levels": 2},
            "dynamics": {"kind": "analytic"},
            "behaviour": {"kind": "mppi", "horizon": 4, "candidates": 8},
            "learning_starts": 64,
            "train_every": 32,
            "gradient_steps": 4,
        },
    ),
)

Records = dict[tuple[int, str, tuple[str, ...]], list[float | None]]


@dataclass(frozen=True)
class Result:
    """What a run left in its folder."""

    state_hash: str
    metrics: Records


def train(tree: Tree, run: ShortRun, place: Path) -> Path:
    """The folder in which the run lies; trained now unless it was before."""
    runs_dir = place / tree.title / run.name
    if not runs_dir.exists():
        tree.launch(run.experiment, runs_dir, place)
    return runs_dir


def record_dataset(tree: Tree, place: Path) -> None:
    """What BC of both trees learns from: episodes of the base's PPO run."""
    if not (place / "datasets" / DATASET).exists():
        runs_dir = train(tree, next(run for run in RUNS if run.name == TEACHER), place)
        options = ["--episodes", "20", "--dataset", DATASET, "--runs-dir", str(runs_dir)]
        tree.rlctl("record", "last", *options, place=place)


def read_result(runs_dir: Path) -> Result:
    """The last checkpoint's hash and the metrics of the one run in the folder."""
    folder = run_folder(runs_dir)
    manifests = sorted(folder.glob("checkpoints/step-*/MANIFEST.json"))
    if not manifests:
        raise CommandFailed(f"{folder}: no checkpoint")
    state_hash: str = json.loads(manifests[-1].read_text(encoding="utf-8"))["state_hash"]
    return Result(state_hash, results_of(metric_records(folder)))


def results_of(records: Iterable[dict[str, Any]]) -> Records:
    """Values by step, key and tags, without those of the clock. Which came first is no result: the order may differ."""
    metrics: Records = {}
    for record in records:
        if CLOCK not in record["tags"]:
            metrics.setdefault((record["step"], record["key"], tuple(record["tags"])), []).append(record["value"])
    return metrics


def first_difference(base: Records, new: Records) -> str | None:
    """The metric of the base that differs at the lowest step, in words; None when all are equal."""
    for entry in sorted(base, key=lambda entry: entry[0]):
        was, now = base[entry], new.get(entry)
        if repr(was) != repr(now):  # repr: 0.0 is not -0.0
            return f"{entry[1]} at step {entry[0]}: {in_words(was)} -> {in_words(now)}"
    return None


def in_words(values: list[float | None] | None) -> str:
    return "absent" if values is None else ", ".join(map(repr, values))


def counts(base: Records, new: Records) -> str:
    """How many metrics are equal, and at which steps the new tree has some that the base has not."""
    added = [step for step, key, tags in new if (step, key, tags) not in base]
    steps = ", ".join(map(str, sorted(set(added))))
    return f"{len(base)} equal" + (f", {len(added)} new at step {steps}" if added else "")


def compare(run: ShortRun, trees: Sequence[Tree], place: Path) -> tuple[list[str], bool]:
    """A row of the table, and whether the run is the same in both trees."""
    results = []
    for tree in trees:
        try:
            if run.algo == "bc":
                record_dataset(trees[0], place)
            results.append(read_result(train(tree, run, place)))
        except CommandFailed as error:
            return [run.name, "", f"failed in {tree.title}: {error}"], False
    base, new = results
    difference = first_difference(base.metrics, new.metrics)
    is_same = base.state_hash == new.state_hash
    hashes = f"{base.state_hash[:12]} {'equal' if is_same else '-> ' + new.state_hash[:12]}"
    return [run.name, hashes, difference or counts(base.metrics, new.metrics)], is_same and difference is None


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_bits", description="Results of two trees, compared."
    )
    parser.add_argument("--base", metavar="REV", help="the commit; default: where this branch left main, else HEAD~1")
    parser.add_argument("--only", metavar="RUN,...", help="some of: " + ", ".join(run.name for run in RUNS))
    parser.add_argument("--keep", action="store_true", help="leave the folders of the runs, and print where")
    args = parser.parse_args(argv)
    names = [run.name for run in RUNS]
    chosen = args.only.split(",") if args.only else names
    if unknown := [name for name in chosen if name not in names]:
        parser.error(f"--only {unknown[0]}: no such run; there are {', '.join(names)}")
    args.runs = [run for run in RUNS if run.name in chosen]
    return args


def main() -> int:
    args = arguments()
    started = time.monotonic()
    rows, same = [], []
    try:
        with two_trees(args.base, args.keep) as (base, new, place):
            for run in args.runs:
                row, is_same = compare(run, (base, new), place)
                rows.append(row)
                same.append(is_same)
                print(f"{run.name:10} {'same' if is_same else 'DIFFERS'}", file=sys.stderr, flush=True)
    except CommandFailed as error:
        print(error, file=sys.stderr)
        return 2
    print(table(["run", "state_hash", "metrics"], rows))
    print(f"\n{sum(same)} of {len(same)} runs are the same; {time.monotonic() - started:.0f} s")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
