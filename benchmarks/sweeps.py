"""Sweeps against doing it by hand: does ASHA find as good a config for half the steps, and what does a sweep cost?

    .venv/bin/python benchmarks/sweeps.py [--seeds 5] [--trials 20] [--out sweeps.json]

1. PPO on CartPole, 20 random configs, with ASHA and without pruning (the same configs, and by exact resume the same
   bits): the best of ASHA within 5 % of the best of all, with at most half of the environment steps, for each of 5
   sweep seeds.
2. The same trials by a sweep and by `rlctl launch`, one run at a time: the sweep may take 5 % longer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rlstudio import orchestrator
from rlstudio.control.sweep.search import load_search, overrides
from rlstudio.core.yaml_file import read_file
from rlstudio.experiment.presets import locate

SHIPPED = "configs/sweep/ppo_cartpole.yaml"
BY_HAND = 4


def shipped(**changes: Any) -> dict[str, Any]:
    return {**read_file(locate(SHIPPED)).data, "seeds": [0], **changes}


def compare(seed: int, trials: int, runs_dir: Path, at_once: int) -> dict[str, Any]:
    """One sweep seed, with and without pruning."""
    found: dict[str, Any] = {"seed": seed}
    for name, pruner in (("all", {"kind": "none"}), ("asha", shipped()["pruner"])):
        sampler = {"kind": "random", "seed": seed}
        config = shipped(name=f"{name}-{seed}", trials=trials, pruner=pruner, sampler=sampler, deterministic=True)
        started = time.perf_counter()
        summary = orchestrator.sweep(config, max_concurrent=at_once, runs_dir=runs_dir)
        best = summary.best
        found[name] = {
            "best": None if best is None else summary.value(best),
            "trial": None if best is None else best.number,
            "env_steps": summary.env_steps(),
            "seconds": round(time.perf_counter() - started, 1),
        }
    found["share_of_steps"] = found["asha"]["env_steps"] / found["all"]["env_steps"]
    found["share_of_best"] = found["asha"]["best"] / found["all"]["best"]
    found["ok"] = found["share_of_steps"] <= 0.5 and found["share_of_best"] >= 0.95
    return found


def overhead(runs_dir: Path) -> dict[str, float]:
    """The same runs, one after the other, by a sweep and by hand."""
    config = shipped(name="by-sweep", trials=BY_HAND, pruner={"kind": "none"})
    started = time.perf_counter()
    summary = orchestrator.sweep(config, max_concurrent=1, runs_dir=runs_dir)
    swept = time.perf_counter() - started
    search = load_search(config)
    started = time.perf_counter()
    for trial in summary.trials:
        settings = [
            *search.cfg.overrides,
            *overrides({**trial.params, "env.seed": 0, "name": f"by-hand-{trial.number}"}),
        ]
        command = [
            sys.executable,
            "-c",
            "from rlstudio.cli.app import main; raise SystemExit(main())",
            "launch",
            "--quiet",
        ]
        file = ["-f", str(search.cfg.experiment), "--runs-dir", str(runs_dir)]
        subprocess.run([*command, *file, *settings], check=True, stdout=subprocess.DEVNULL)
    by_hand = time.perf_counter() - started
    return {"sweep_seconds": swept, "by_hand_seconds": by_hand, "ratio": swept / by_hand}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--max-concurrent", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs_dir = Path(folder) / "runs"
        found = []
        for seed in range(options.seeds):
            found.append(compare(seed, options.trials, runs_dir, options.max_concurrent))
            print(json.dumps(found[-1]), flush=True)
        cost = overhead(runs_dir)
    print(json.dumps(cost))
    ok = all(row["ok"] for row in found) and cost["ratio"] < 1.05
    result = {"asha": found, "overhead": cost, "ok": ok}
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=2))
    print("ok" if ok else "missed")
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
