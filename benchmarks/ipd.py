"""PPO in the iterated prisoner's dilemma beside what is exactly possible: `python -m benchmarks.ipd`.

Each seed of each opponent is a run as a user would launch it, with one thread. The last policy plays greedily; what it
gets per round is compared with the best response, which is known. Against the pool, where no closed form of the best
policy is known, it stands between the best reply to the last round and what knowing the opponent would bring. Every
finished seed is a line of `benchmarks/results/ipd.jsonl`, so the command can be stopped and started again. The table
goes to `docs/howto/ipd.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.learning import read_store, stated
from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance
from benchmarks.seed_table import newest, train_missing
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio import orchestrator
from rlstudio.envs.worlds.ipd.score import per_round
from rlstudio.envs.worlds.ipd.world import IPD, POOL
from rlstudio.experiment.config.experiment import ExperimentConfig, load_experiment

STORE = RESULTS / "ipd.jsonl"
PAGE = ROOT / "docs" / "howto" / "ipd.md"
CONFIG = "configs/ipd/ppo.yaml"
SEEDS = 10
GAMES = 20_000
TOLERANCE = 0.02
"""How far below the best response a policy may stay."""


class Case(NamedTuple):
    """An opponent, and what is set to learn against it beside the shipped config."""

    opponent: str
    overrides: tuple[str, ...] = ()


KNOWN = (
    "env.kwargs.payoffs=[3, 0, 5, 1]",
    "env.kwargs.tremble=0",
    "env.kwargs.history=5",
    "train.epochs=20",
)
"""Single opponents answer the last round alone, so five rounds are shown. With twenty, every number of rounds without a
defection is another observation, and against grudger a policy learns them one after the other: it cannot see a later
one before it cooperates in all earlier ones."""

CASES = (
    Case(POOL),
    *(
        Case(opponent, KNOWN)
        for opponent in ("tit_for_tat", "grudger", "always_cooperate", "always_defect", "win_stay_lose_shift")
    ),
)


def config(case: Case, seed: int = 0) -> ExperimentConfig:
    settings = [f"env.kwargs.opponent={case.opponent}", *case.overrides, f"env.seed={seed}", "runtime.threads=1"]
    return load_experiment(CONFIG, settings)


def limits(case: Case) -> tuple[float, float]:
    """What a policy has to reach, and what none can exceed."""
    cfg = config(case)
    world, gamma = _world(cfg), _gamma(cfg)
    bound = world.opponents.bound(world.payoffs, gamma)
    if case.opponent == POOL:
        return world.opponents.best_memory_one(world.payoffs, gamma), bound
    return bound * (1 - TOLERANCE), bound


def run(case: Case, seed: int) -> dict[str, Any]:
    cfg = config(case, seed)
    used = time.process_time()
    with tempfile.TemporaryDirectory() as runs:
        trained = orchestrator.run(cfg, runs_dir=runs, progress=False)
        games = per_round(_world(cfg), trained.agent().act, _gamma(cfg), GAMES if case.opponent == POOL else 1)
    result = {"case": case.opponent, "seed": seed, "identity": stated(config(case)), "per_round": float(games.mean())}
    spread = {"half_interval": float(1.96 * games.std() / len(games) ** 0.5), "games": len(games)}
    times = {"env_steps": cfg.train.planned_steps, "cpu_seconds": round(time.process_time() - used, 1)}
    return {**result, **spread, **times, **provenance({OURS: ours().versions})}


def current(case: Case, stored: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The lines of this config, the newest of each seed."""
    return newest(stored, case.opponent, stated(config(case)))


def rows(stored: list[dict[str, Any]]) -> list[list[str]]:
    made = []
    for case in CASES:
        lines = [*current(case, stored).values()]
        if not lines:
            continue
        scores = [line["per_round"] for line in lines]
        wanted, bound = limits(case)
        made.append(
            [
                f"`{case.opponent}`",
                f"{lines[0]['env_steps']:,}",
                ", ".join(f"{score:.3f}" for score in scores),
                f"{mean(scores):.3f}",
                f"{wanted:.3f}",
                f"{sum(score > wanted for score in scores)} of {len(scores)}",
                f"{bound:.3f}",
            ]
        )
    return made


def write_page(stored: list[dict[str, Any]]) -> str:
    head = ["opponent", "env steps", "per round, by seed", "mean", "wanted", "reached", "nobody gets more"]
    text = table(head, rows(stored))
    replace_between(PAGE, "ipd", text)
    return text


def _world(cfg: ExperimentConfig) -> IPD:
    return IPD(**cfg.env.kwargs)  # type: ignore[arg-type]


def _gamma(cfg: ExperimentConfig) -> float:
    gamma: float = cfg.train.gamma  # type: ignore[attr-defined]
    return gamma


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ipd", description="PPO in the prisoner's dilemma.")
    names = [case.opponent for case in CASES]
    parser.add_argument("--opponents", nargs="+", choices=names, default=names)
    parser.add_argument("--render", action="store_true", help="only write the table again, from stored results")
    args = parser.parse_args()
    chosen = [case for case in CASES if case.opponent in args.opponents]
    seeds = 0 if args.render else SEEDS
    train_missing(STORE, seeds, chosen, current, run, lambda line: f"{line['per_round']:.3f}")
    print(write_page(read_store(STORE)))


if __name__ == "__main__":
    main()
