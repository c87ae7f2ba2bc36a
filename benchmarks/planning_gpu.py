"""Plans on a GPU beside the same plans on the CPU of its machine: `python -m benchmarks.planning_gpu`.

A plan is timed as an agent makes it: from observations in NumPy to actions in NumPy, with the way to the GPU and back,
and with the noise that it draws. Raw numbers go to `benchmarks/results/planning_gpu.json`, the table to
`docs/howto/planning.md`. Where there is no GPU, only the table is written, from what is stored.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance, read_result, write_result
from rlstudio.agents.planning import PlanningAgent
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Dynamics
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.models.planning.dynamics import LearnedDynamics
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig

PAGE = RESULTS.parents[1] / "docs" / "howto" / "planning.md"
ENV = "Pendulum-v1"
CASES: dict[str, dict[str, Any]] = {
    "MPPI, equations, 100 sequences of 15 steps": {"kind": "mppi", "candidates": 100, "horizon": 15},
    "CEM, equations, 1,000 sequences of 30 steps": {"kind": "cem", "candidates": 1000, "horizon": 30},
    "CEM, ensemble of 5 (200, 200), 200 sequences of 20 steps": {"kind": "cem", "candidates": 200, "horizon": 20},
}
ENVS = (1, 16, 256)
ENVS_ENSEMBLE = (1, 16, 64)
THREADS = 8


def model_of(case: str, spaces: Spaces, device: str) -> Dynamics:
    if "equations" in case:
        return analytic_dynamics(ENV)
    shape = {"members": 5, "particles": 5, "hidden_sizes": (200, 200), "activation": "silu"}
    model = LearnedDynamics(spaces, **shape, spread=True, noise=False, rng=Rng(0))  # type: ignore[arg-type]
    seen = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    rows = {"observations": seen, "next_observations": 0.9 * seen, "rewards": seen[:, 0]}
    model.learn_statistics(Batch(**rows, terminated=torch.zeros(64, dtype=torch.bool)))
    return model.to(device)


def timed(case: str, envs: int, device: str, seconds: float) -> float:
    """The median of milliseconds; the first half of all plans does not count."""
    world = make_world(ENV, {})
    cfg = PlannerConfig(**CASES[case])
    score = build_score(cfg, model_of(case, world.spaces, device), ENV, gamma=1.0)
    agent = PlanningAgent(build_planner(cfg, world.spaces.action), score, world.spaces, device=device)
    generator = np.random.default_rng(0)
    seen = world.observe(
        world.initial(generator.random((envs, world.noise_size)), world.params, np), world.params, np
    ).astype(np.float32)
    noise, carry, times = agent.noise(generator, 0, envs), None, []
    began, number = time.perf_counter(), 0
    while number < 6 or time.perf_counter() - began < seconds:
        before = time.perf_counter()
        carry = agent.step(seen, carry, noise[number]).carry
        times.append(1e3 * (time.perf_counter() - before))
        number += 1
    return median(times[len(times) // 2 :])


def measure(seconds: float) -> dict[str, Any]:
    cells = []
    plans = [(case, envs) for case in CASES for envs in (ENVS_ENSEMBLE if "ensemble" in case else ENVS)]
    for case, envs in plans:
        cell: dict[str, Any] = {"case": case, "envs": envs}
        for threads in (1, THREADS):
            torch.set_num_threads(threads)
            cell[f"cpu_{threads}_ms"] = timed(case, envs, "cpu", seconds)
        cell["gpu_ms"] = timed(case, envs, "cuda", seconds)
        cells.append(cell)
        print(cell, flush=True)
    versions = {"rlstudio": {"torch": torch.__version__, "numpy": np.__version__}}
    return {**provenance(versions), "gpu": torch.cuda.get_device_name(), "cells": cells}


def page(result: dict[str, Any]) -> str:
    rows = []
    for cell in result["cells"]:
        cpu = min(cell["cpu_1_ms"], cell[f"cpu_{THREADS}_ms"])
        rows.append(
            [cell["case"], str(cell["envs"]), f"{cpu:.2f}", f"{cell['gpu_ms']:.2f}", f"{cpu / cell['gpu_ms']:.1f}x"]
        )
    header = ["Pendulum-v1", "environments", "CPU, ms", "GPU, ms", "faster"]
    machine, versions = result["machine"], result["versions"]["rlstudio"]
    return (
        f"{table(header, rows)}\n\n<sub>`{result['command']}`, {result['date']}; {result['gpu']} and"
        f" {machine['processor']}, the better of 1 and {THREADS} threads; Python {machine['python']},"
        f" torch {versions['torch']}.</sub>"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning_gpu", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each number is measured")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the raw numbers")
    arguments = parser.parse_args()
    if torch.cuda.is_available():
        write_result("planning_gpu", measure(arguments.seconds), arguments.results)
    result = read_result("planning_gpu", arguments.results)
    if result is not None:
        text = page(result)
        replace_between(PAGE, "planning_gpu", text)
        print(text)


if __name__ == "__main__":
    main()
