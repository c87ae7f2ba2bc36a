"""PPO on CartPole with its own and with randomised physics: `python -m benchmarks.randomised`.

Both are trained as a user would launch them, with one thread and as many steps. The last policies then hold poles
greedily at every point of a grid that spans the ranges of `configs/ppo/cartpole_randomised.yaml`. Every finished seed
is a line of `benchmarks/results/randomised.jsonl`, so the command can be stopped and started again. The table goes to
`docs/howto/randomise.md`.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from statistics import mean
from typing import Any, NamedTuple, cast

import numpy as np

from benchmarks.learning import digest, read_store, stated
from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance
from benchmarks.seed_table import newest, train_missing
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio import orchestrator
from rlstudio.core.contracts import World
from rlstudio.envs.worlds.cartpole import CartPole
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.experiment.config.experiment import ExperimentConfig, load_experiment

STORE = RESULTS / "randomised.jsonl"
PAGE = ROOT / "docs" / "howto" / "randomise.md"
CONFIG = "configs/ppo/cartpole_randomised.yaml"
SEEDS = 10
EPISODES = 5
STEPS = 500
SOLVED = 475.0
GRID = {
    "gravity": (5.0, 9.8, 15.0),
    "length": (0.25, 0.5, 1.0, 1.5),
    "mass_cart": (0.5, 1.0, 2.0),
    "mass_pole": (0.05, 0.1, 0.5),
}


class Case(NamedTuple):
    """How the environments of training are, beside the shipped config."""

    name: str
    overrides: tuple[str, ...] = ()


CASES = (Case("own values", ("env.params={}",)), Case("randomised"))


def config(case: Case, seed: int = 0) -> ExperimentConfig:
    return load_experiment(CONFIG, [*case.overrides, f"env.seed={seed}", "runtime.threads=1"])


def points() -> list[dict[str, float]]:
    return [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]


def held(act: Callable[[np.ndarray], np.ndarray], seed: int = 0) -> list[float]:
    """The mean return of each point of the grid, over EPISODES starts; all are played side by side."""
    grid = points()
    params = {name: np.repeat([point[name] for point in grid], EPISODES) for name in GRID}
    world = cast("World[np.ndarray]", CartPole())
    returns = first_returns(NativeVecEnv(world, EPISODES * len(grid), seed, STEPS, params), act)
    means: list[float] = returns.reshape(len(grid), EPISODES).mean(1).tolist()
    return means


def first_returns(env: NativeVecEnv, act: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The return of the first episode of each environment; all are played side by side."""
    observations = env.reset()
    returns, going_on = np.zeros(env.num_envs), np.ones(env.num_envs, bool)
    while going_on.any():
        assert isinstance(observations, np.ndarray)
        step = env.step(act(observations))
        observations = step.observations
        returns += step.rewards * going_on
        going_on &= ~(step.terminated | step.truncated)
    return returns


def identity(case: Case) -> str:
    """Of the config and the grid: what a stored line was measured with."""
    return digest([stated(config(case)), GRID, EPISODES])


def run(case: Case, seed: int, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    cfg = config(Case(case.name, (*case.overrides, *overrides)), seed)
    used = time.process_time()
    with tempfile.TemporaryDirectory() as runs:
        returns = held(orchestrator.run(cfg, runs_dir=runs, progress=False).agent().act)
    result = {"case": case.name, "seed": seed, "identity": identity(case), "returns": returns}
    times = {"env_steps": cfg.train.planned_steps, "cpu_seconds": round(time.process_time() - used, 1)}
    return {**result, **times, **provenance({OURS: ours().versions})}


def current(case: Case, stored: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The lines of this config and grid, the newest of each seed."""
    return newest(stored, case.name, identity(case))


def rows(stored: list[dict[str, Any]]) -> list[list[str]]:
    made = []
    for case in CASES:
        lines = [*current(case, stored).values()]
        if not lines:
            continue
        grids = [line["returns"] for line in lines]
        means = [mean(grid) for grid in grids]
        solved = mean(sum(value >= SOLVED for value in grid) / len(grid) for grid in grids)
        made.append(
            [
                case.name,
                f"{lines[0]['env_steps']:,}",
                ", ".join(f"{value:.0f}" for value in means),
                f"{mean(means):.0f}",
                f"{mean(min(grid) for grid in grids):.0f}",
                f"{100 * solved:.0f} %",
                f"{sum(value >= SOLVED for value in means)} of {len(means)}",
            ]
        )
    return made


def write_page(stored: list[dict[str, Any]]) -> str:
    head = ["trained with", "env steps", "mean over the grid, by seed", "mean", "worst point", "points >= 475"]
    text = table([*head, "seeds with a mean >= 475"], rows(stored))
    replace_between(PAGE, "randomised", text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.randomised", description="Randomised CartPole.")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--render", action="store_true", help="only write the table again, from stored results")
    parser.add_argument("--smoke", action="store_true", help="train each case for one epoch and store nothing")
    args = parser.parse_args()
    if args.smoke:
        for case in CASES:
            print(f"{case.name}: {mean(run(case, 0, ('train.epochs=1',))['returns']):.1f}")
        return
    seeds = 0 if args.render else args.seeds
    train_missing(STORE, seeds, CASES, current, run, lambda line: f"{mean(line['returns']):.0f}")
    print(write_page(read_store(STORE)))


if __name__ == "__main__":
    main()
