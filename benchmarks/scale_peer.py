"""Our PPO with workers beside RLlib's, in one run: `python -m benchmarks.scale --peer rllib`.

CartPole-v1, 8 environments in two workers, the same settings, and on both sides Gymnasium's environments: steps per
second with learning, and the time from the start of the process to the first mean of 10 greedy episodes that reaches
475. Repetitions are interleaved, each a fresh process.
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

from benchmarks.jobs import run_job
from benchmarks.page import table
from benchmarks.settings import PPO
from benchmarks.venvs import ours, prepare

OURS = {"process": {"backend": "process"}, "process, async": {"backend": "process", "mode": "async"}}
SOLVE = {"threshold": 475.0, "eval_every": 4096, "eval_episodes": 10, "max_steps": 300_000}


def compare(peer: str, seconds: float, repetitions: int) -> None:
    pythons = {"rlstudio": ours().python, peer: prepare(peer).python}
    sides = [("rlstudio", name, rollout) for name, rollout in OURS.items()] + [(peer, "Ray", {})]
    found: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for seed in range(1, repetitions + 1):
        for side, name, rollout in sides:
            base = {**PPO, "vectorization": "sync", "rollout": {"workers": 2, **rollout}, "threads": 1, "seed": seed}
            for what, more in {"rate": {"seconds": seconds}, "solve": SOLVE}.items():
                result = run_job(pythons[side], f"{side}_runner", {**base, **more, "what": what})
                found.setdefault((side, name), {}).setdefault(what, []).append(result)
                print(side, name, what, seed, result, file=sys.stderr, flush=True)
    rows = []
    for (side, name), results in found.items():
        rates = [result["steps_per_second"] for result in results["rate"]]
        times = [result["seconds"] for result in results["solve"] if result["seconds"] is not None]
        reached = f"{median(times):.1f} s ({len(times)} of {len(results['solve'])})" if times else "never"
        rows.append([side, name, f"{median(rates):,.0f}", reached])
    print(table(["library", "workers", "steps/s", "to 475, median"], rows))
