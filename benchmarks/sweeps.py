"""What sweeps save and what they cost: `python -m benchmarks.sweeps`.

- ASHA against no pruning: PPO on Acrobot, where no config reaches the highest return there is, the same 20 random
  configs for both (and by exact resume the same bits), for each of 5 sweep seeds. Wanted: the best of ASHA has at least
  95 % of what the best of all has above a policy that never arrives (-500), with at most half of the env steps.
- The same trials by a sweep and by `rlctl launch`, one run at a time, in turns. Wanted: at most 5 % more.

Every finished seed is kept in `results/sweeps.json`, so the command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.page import replace_between, table
from benchmarks.records import provenance, read_result, write_result
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio import orchestrator
from rlstudio.control.sweep.search import load_search, overrides
from rlstudio.core.parsing.yaml_file import read_file
from rlstudio.experiment.config.presets import locate

PAGE = ROOT / "docs" / "benchmarks.md"
PRUNED = "configs/sweep/ppo_acrobot.yaml"
NEVER_ARRIVES = -500.0
"""What a policy earns on Acrobot that does not learn."""
BESIDE_COMMANDS = "configs/sweep/ppo_cartpole.yaml"
RLCTL = str(Path(sys.executable).parent / "rlctl")
BY_HAND = 4
"""Trials of the second measurement."""


def shipped(file: str, **changes: Any) -> dict[str, Any]:
    """A sweep that ships with RLStudio, with one seed per trial."""
    return {**read_file(locate(file)).data, "seeds": [0], **changes}


# -- pruning ------------------------------------------------------------------------------------------------------


def compare(seed: int, trials: int, at_once: int) -> dict[str, Any]:
    """One sweep seed, with and without pruning."""
    sampler = {"kind": "random", "seed": seed}
    found: dict[str, Any] = {"sweep": PRUNED, "seed": seed, "trials": trials}
    with tempfile.TemporaryDirectory() as folder:
        for name, pruner in (("all", {"kind": "none"}), ("asha", shipped(PRUNED)["pruner"])):
            config = shipped(PRUNED, name=name, trials=trials, pruner=pruner, sampler=sampler, deterministic=True)
            summary = orchestrator.sweep(config, max_concurrent=at_once, runs_dir=Path(folder) / "runs")
            best = None if summary.best is None else summary.value(summary.best)
            found[name] = {"best": best, "env_steps": summary.env_steps()}
    return found


def asha_rows(found: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for row in sorted(found, key=lambda row: int(row["seed"])):
        whole, pruned = row["all"], row["asha"]
        best = (pruned["best"] - NEVER_ARRIVES) / (whole["best"] - NEVER_ARRIVES)
        steps = pruned["env_steps"] / whole["env_steps"]
        rows.append(
            [
                f"sweep seed {row['seed']}",
                f"{whole['best']:.1f}",
                f"{pruned['best']:.1f} ({best:.0%})",
                f"{whole['env_steps']:,}",
                f"{pruned['env_steps']:,} ({steps:.0%})",
                "yes" if best >= 0.95 and steps <= 0.5 else "**no**",
            ]
        )
    return rows


# -- overhead -----------------------------------------------------------------------------------------------------


def by_sweep(runs_dir: Path, name: str) -> float:
    started = time.perf_counter()
    orchestrator.sweep(_small(name), max_concurrent=1, runs_dir=runs_dir)
    return time.perf_counter() - started


def by_hand(runs_dir: Path, trials: list[dict[str, Any]]) -> float:
    """The same trials, each as a command of its own."""
    search = load_search(_small("by-hand"))
    started = time.perf_counter()
    for params in trials:
        settings = [*search.cfg.overrides, *overrides({**params, "env.seed": 0})]
        file = ["-f", str(search.cfg.experiment), "--runs-dir", str(runs_dir)]
        subprocess.run([RLCTL, "launch", "--quiet", *file, *settings], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _small(name: str) -> dict[str, Any]:
    return shipped(BESIDE_COMMANDS, name=name, trials=BY_HAND, pruner={"kind": "none"})


def overhead(reps: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"sweep": [], "hand": []}
    with tempfile.TemporaryDirectory() as folder:
        runs_dir = Path(folder) / "runs"
        first = orchestrator.sweep(_small("trials"), max_concurrent=2, runs_dir=runs_dir)
        trials = [dict(trial.params) for trial in first.trials]
        for rep in range(reps):
            for way in ("sweep", "hand") if rep % 2 == 0 else ("hand", "sweep"):
                seconds = by_sweep(runs_dir, f"rep-{rep}") if way == "sweep" else by_hand(runs_dir, trials)
                found[way].append(seconds)
                print(f"{way:6} {seconds:.1f} s", file=sys.stderr, flush=True)
    return found


# -- the page -----------------------------------------------------------------------------------------------------


def page(result: dict[str, Any]) -> str:
    header = ["20 trials", "best of all", "best with ASHA", "steps of all", "steps with ASHA", "met"]
    parts = [table(header, asha_rows(result["asha"]))]
    cost = result.get("overhead")
    if cost:
        ratio = median(cost["sweep"]) / median(cost["hand"])
        rows = [
            [f"{BY_HAND} runs by `rlctl launch`", f"{median(cost['hand']):.1f} s", "", ""],
            [
                f"the same as a sweep ({ratio:.2f} of it)",
                f"{median(cost['sweep']):.1f} s",
                "<= 1.05 of it",
                "yes" if ratio <= 1.05 else "**no**",
            ],
        ]
        parts.append(table(["one run at a time", "median", "wanted", "met"], rows))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps", description="What sweeps save and cost.")
    parser.add_argument("--seeds", type=int, default=5, help="sweep seeds, each with and without pruning")
    parser.add_argument("--trials", type=int, default=20, help="trials of a sweep")
    parser.add_argument("--max-concurrent", type=int, default=2, help="runs at a time")
    parser.add_argument("--reps", type=int, default=3, help="measurements of the overhead; 0 keeps what is stored")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    result = read_result("sweeps") or {"asha": []}
    result["asha"] = [row for row in result["asha"] if row.get("sweep") == PRUNED]
    for seed in range(args.seeds):
        if any(row["seed"] == seed and row["trials"] == args.trials for row in result["asha"]):
            continue
        result["asha"].append(compare(seed, args.trials, args.max_concurrent))
        print(result["asha"][-1], file=sys.stderr, flush=True)
        write_result("sweeps", {**result, **provenance({OURS: ours().versions})})
    if args.reps:
        result["overhead"] = overhead(args.reps)
        write_result("sweeps", {**result, **provenance({OURS: ours().versions})})
    text = page(result)
    replace_between(PAGE, "sweeps", text)
    print(text)


if __name__ == "__main__":
    main()
