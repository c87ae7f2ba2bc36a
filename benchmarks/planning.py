"""Planners in the equations of their worlds: `python -m benchmarks.planning`, what they earn and how long a plan takes.

`--parts returns` plays Gymnasium's own environments from the seeds 0, 1, 2, ..., all starts side by side, once each.
`--parts speed` times plans: ours and those of pytorch_mppi in turns, each in a process of its own at one and two
threads, of which the better counts; then ours by the number of environments, candidates, steps and rounds. Raw numbers
go to `benchmarks/results/planning_<part>.json`, the tables to `docs/howto/planning.md`. A few minutes each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from benchmarks import planning_page
from benchmarks.jobs import JobFailed, run_job
from benchmarks.planning_rows import ROWS, Row
from benchmarks.records import provenance, read_result, write_result
from benchmarks.venvs import CannotInstall, Venv, ours, prepare
from rlstudio.agents.planning import PlanningAgent
from rlstudio.data.collect.carry import without_rows
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.models.policies.distributions import Categorical
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig

PEER = "pytorch_mppi"
MPPI = {"kind": "mppi", "candidates": 100, "horizon": 15, "colour": 0.0}
"""What both sides do: white noise, 100 sequences of 15 steps, one round."""

THREADS = (1, 2)
GRID = {"envs": (1, 16, 256), "candidates": (64, 256), "horizon": (15, 30), "iterations": (1, 4)}


def upright(observations: Tensor) -> Categorical:
    """A policy that only watches the pole and never the cart: it pushes to where the pole falls."""
    falls = observations[..., 2] + 0.26 * observations[..., 3]
    return Categorical(torch.stack((-falls, falls), -1) * 20.0)


POLICIES: dict[str, Callable[[Tensor], Categorical]] = {"CartPole-v1": upright}
"""What guided planning follows."""


# -- returns -----------------------------------------------------------------------------------------------------------


def agent_of(row: Row) -> PlanningAgent:
    cfg, spaces = PlannerConfig(**row.planner), make_world(row.env_id, {}).spaces
    policy = POLICIES[row.env_id] if cfg.kind == "guided" else None
    score = build_score(cfg, analytic_dynamics(row.env_id), row.env_id, gamma=cfg.gamma)
    return PlanningAgent(build_planner(cfg, spaces.action, policy), score, spaces)


def play(agent: PlanningAgent, env_id: str, starts: int) -> list[float]:
    """The return of the first episode of each start; those that end earlier play on and are not counted."""
    env = gym.make_vec(env_id, num_envs=starts, vectorization_mode="sync")
    observations, _ = env.reset(seed=0)  # start k has seed k
    returns, playing, carry = np.zeros(starts), np.ones(starts, bool), None
    while playing.any():
        acted = agent.step(observations, carry)
        observations, rewards, terminated, truncated, _ = env.step(acted.actions)
        returns += np.where(playing, rewards, 0.0)
        ended = np.logical_or(terminated, truncated)
        playing &= ~ended
        carry = without_rows(acted.carry, ended.nonzero()[0])
    env.close()
    return [float(value) for value in returns]


def measure_returns(keys: list[str]) -> dict[str, Any]:
    """Row by row, each stored at once with those of earlier calls."""
    result = provenance({"rlstudio": ours().versions})
    found = (read_result("planning_returns") or {}).get("rows", {})
    for row in ROWS:
        if row.key not in keys:
            continue
        began = time.perf_counter()
        returns = play(agent_of(row), row.env_id, row.starts)
        told = {"planner": row.planner, "returns": returns, "seconds": round(time.perf_counter() - began, 1)}
        found[row.key] = told
        print(f"{row.key:28} {np.mean(returns):8.1f}  {told['seconds']:6.1f} s", file=sys.stderr, flush=True)
        write_result("planning_returns", {**result, "rows": found})
    return {**result, "rows": found}


# -- speed -------------------------------------------------------------------------------------------------------------


def measure_speed(reps: int, seconds: float) -> dict[str, Any]:
    venvs, missing = {"rlstudio": ours()}, {}
    try:
        venvs[PEER] = prepare(PEER)
    except CannotInstall as error:
        missing[PEER] = str(error)
    runners = {"rlstudio": "rlstudio_planner", PEER: f"{PEER}_runner"}
    against = []
    for rep, envs, threads, side in product(range(reps), (1, 256), THREADS, venvs):
        job = {**MPPI, "planner": MPPI, "env_id": "Pendulum-v1", "envs": envs}
        against.append(_timed(venvs[side], runners[side], job, threads, seconds) | {"side": side, "rep": rep})
    grid = []
    for values in product(*GRID.values()):
        cell = dict(zip(GRID, values, strict=True))
        settings = {"kind": "cem", **{name: cell[name] for name in GRID if name != "envs"}}
        grid.append(cell | _ours(venvs["rlstudio"], "Pendulum-v1", settings, cell["envs"], seconds))
    trees = [
        {"envs": envs, "simulations": 32}
        | _ours(venvs["rlstudio"], "CartPole-v1", {"kind": "mcts", "simulations": 32}, envs, seconds)
        for envs in GRID["envs"]
    ]
    versions = {side: venv.versions for side, venv in venvs.items()}
    measured = {"settings": MPPI, "against": against, "grid": grid, "trees": trees}
    return {**provenance(versions), "not_installed": missing, **measured}


def _ours(venv: Venv, env_id: str, planner: dict[str, Any], envs: int, seconds: float) -> dict[str, Any]:
    return _timed(venv, "rlstudio_planner", {"planner": planner, "env_id": env_id, "envs": envs}, 1, seconds)


def _timed(venv: Venv, runner: str, job: dict[str, Any], threads: int, seconds: float) -> dict[str, Any]:
    told = {"envs": job["envs"], "threads": threads}
    try:
        found = told | run_job(venv.python, runner, {**job, "threads": threads, "seconds": seconds})
    except JobFailed as error:
        found = told | {"error": str(error)}
    print(f"{runner:20} {found}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--parts", nargs="*", choices=("returns", "speed"), default=["returns", "speed"])
    parser.add_argument("--rows", nargs="+", choices=[row.key for row in ROWS], default=[row.key for row in ROWS])
    parser.add_argument("--reps", type=int, default=5, help="repetitions against the other library")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each number is measured")
    arguments = parser.parse_args()
    if "returns" in arguments.parts:
        measure_returns(arguments.rows)
    if "speed" in arguments.parts:
        write_result("planning_speed", measure_speed(arguments.reps, arguments.seconds))
    print(planning_page.write())


if __name__ == "__main__":
    main()
