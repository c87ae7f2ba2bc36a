"""What a curriculum brings: `python -m benchmarks.curriculum`.

Three tasks, each trained with a curriculum and without, as a user would launch it, with one thread. The last policy is
judged greedily on the task itself: MountainCar from the valley; every level of GridLevels once; a grid of CartPoles.
Every finished seed is a line of `benchmarks/results/curriculum.jsonl`, so the command can be stopped and started again.
The table goes to `docs/howto/curriculum.md`.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from benchmarks.learning import read_store, stated
from benchmarks.page import replace_between, table
from benchmarks.randomised import STEPS, first_returns
from benchmarks.records import RESULTS, provenance
from benchmarks.seed_table import newest, train_missing
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio import orchestrator
from rlstudio.agents.agent import Agent
from rlstudio.core.contracts import World
from rlstudio.envs.worlds.cartpole import CartPole
from rlstudio.envs.worlds.levels.grid_levels import GridLevels
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.experiment.config.experiment import ExperimentConfig, load_experiment
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.ops.statistics import bootstrap_interval

STORE = RESULTS / "curriculum.jsonl"
PAGE = ROOT / "docs" / "howto" / "curriculum.md"
SEEDS = 10
EPISODES = 100
PER_CELL = 4
"""Episodes in each CartPole of the grid."""

MOUNTAINCAR = "configs/ppo/mountaincar_curriculum.yaml"
LEVELS = "configs/ppo/grid_levels.yaml"
ADR = "configs/ppo/cartpole_adr.yaml"
PLAIN = "curriculum=null"
HEAVY = "env.params={gravity: 0.003}"
"""Gymnasium has 0.0025, which PPO's defaults need no curriculum for: docs/decisions/0095-mountaincar.md."""

GRID = {"length": (0.25, 0.5, 1.0, 1.5), "mass_pole": (0.05, 0.1, 0.5), "force": (5.0, 10.0, 15.0)}
"""The corners of what `ADR` may reach, and values between them."""


def from_the_valley(cfg: ExperimentConfig, agent: Agent) -> dict[str, float]:
    evaluation = evaluate(agent, cfg.env, episodes=EPISODES, seed=cfg.env.seed)
    return {"score": evaluation.summary.mean}


def on_levels(cfg: ExperimentConfig, agent: Agent) -> dict[str, float]:
    """The share of solved levels: of the hard ones that can be solved, which is the score, and of all."""
    world = GridLevels(**cfg.env.kwargs)  # type: ignore[arg-type]
    env = NativeVecEnv(world, world.levels, cfg.env.seed, world.limit, {"level": np.arange(world.levels) * 1.0})
    solved = first_returns(env, lambda rows: agent.step(rows).actions) > 0
    return {"score": float(solved[world.trivial : world.levels - world.impossible].mean()), "all": float(solved.mean())}


def on_grid(cfg: ExperimentConfig, agent: Agent) -> dict[str, float]:
    """The mean return over the grid, which is the score, and that of its worst cell."""
    cells = np.repeat([*itertools.product(*GRID.values())], PER_CELL, axis=0)
    world = cast("World[np.ndarray]", CartPole())
    env = NativeVecEnv(world, len(cells), cfg.env.seed, STEPS, dict(zip(GRID, cells.T, strict=True)))
    means = first_returns(env, lambda rows: agent.step(rows).actions).reshape(-1, PER_CELL).mean(1)
    return {"score": float(means.mean()), "worst": float(means.min())}


class Case(NamedTuple):
    """A config, what is set beside it, and how its policy is judged."""

    task: str
    side: str
    config: str
    overrides: tuple[str, ...]
    judge: Callable[[ExperimentConfig, Agent], dict[str, float]]

    @property
    def key(self) -> str:
        return f"{self.task}: {self.side}"


def _uniform() -> str:
    """All that `ADR` may reach, from the first episode on."""
    section = load_experiment(ADR).curriculum
    assert section is not None
    assert section.adr is not None
    ranges = (f"{name}: {{uniform: {list(given.limits)}}}" for name, given in section.adr.parameters.items())
    return f"env.params={{{', '.join(ranges)}}}"


CASES = (
    Case("MountainCar with gravity 0.003, return", "reverse curriculum", MOUNTAINCAR, (HEAVY,), from_the_valley),
    Case("MountainCar with gravity 0.003, return", "none", MOUNTAINCAR, (HEAVY, PLAIN), from_the_valley),
    Case("GridLevels, hard levels solved", "level replay", LEVELS, (), on_levels),
    Case("GridLevels, hard levels solved", "uniform", LEVELS, (PLAIN,), on_levels),
    Case("CartPole grid, return", "automatic randomisation", ADR, (), on_grid),
    Case("CartPole grid, return", "uniform", ADR, (PLAIN, _uniform()), on_grid),
    Case("CartPole grid, return", "none", ADR, (PLAIN,), on_grid),
)


def config(case: Case, seed: int = 0) -> ExperimentConfig:
    return load_experiment(case.config, [*case.overrides, f"env.seed={seed}", "runtime.threads=1"])


def run(case: Case, seed: int) -> dict[str, Any]:
    cfg = config(case, seed)
    used, measured = time.process_time(), {}
    with tempfile.TemporaryDirectory() as runs, orchestrator.session(cfg, runs_dir=runs) as session:
        for tick in session:
            if tick.report is not None:
                measured = {k: v for k, v in tick.report.metrics.items() if k.startswith("curriculum/")}
        judged = case.judge(cfg, session.trainer.agent)  # type: ignore[arg-type]
    result = {"case": case.key, "seed": seed, "identity": stated(config(case)), **judged, "curriculum": measured}
    times = {"env_steps": cfg.train.planned_steps, "cpu_seconds": round(time.process_time() - used, 1)}
    return {**result, **times, **provenance({OURS: ours().versions})}


def current(case: Case, stored: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The lines of this config, the newest of each seed."""
    return newest(stored, case.key, stated(config(case)))


def rows(stored: list[dict[str, Any]]) -> list[list[str]]:
    made = []
    for case in CASES:
        lines = [*current(case, stored).values()]
        if not lines:
            continue
        scores = [line["score"] for line in lines]
        low, high = bootstrap_interval(scores, np.random.default_rng(0)) if len(scores) > 1 else (scores[0], scores[0])
        interval = f"[{low:.3g}, {high:.3g}]" if len(scores) > 1 else "-"
        cells = [case.task, case.side, f"{lines[0]['env_steps']:,}", ", ".join(f"{score:.3g}" for score in scores)]
        made.append([*cells, f"{np.mean(scores):.3g}", interval])
    return made


def write_page(stored: list[dict[str, Any]]) -> str:
    text = table(["task, what counts", "curriculum", "env steps", "by seed", "mean", "95 % interval"], rows(stored))
    replace_between(PAGE, "curriculum", text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curriculum", description="What a curriculum brings.")
    tasks = list(dict.fromkeys(case.task.partition(",")[0].split()[0] for case in CASES))
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--render", action="store_true", help="only write the table again, from stored results")
    args = parser.parse_args()
    chosen = [case for case in CASES if case.task.startswith(tuple(args.tasks))]
    seeds = 0 if args.render else args.seeds
    train_missing(STORE, seeds, chosen, current, run, lambda line: f"{line['score']:.3f}")
    print(write_page(read_store(STORE)))


if __name__ == "__main__":
    main()
