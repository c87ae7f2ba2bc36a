"""How few steps MBMPC needs: `python -m benchmarks.model_based`.

Each seed of each config is a run as a user would launch it, with one thread; what counts is its final evaluation, which
the last agent plays on the real Gymnasium environment. Every finished seed is one line of
`benchmarks/results/model_based.jsonl`, so the command can be stopped and started again: what is there with the same
config is not trained twice. Tables go to `docs/algorithms/mbmpc.md`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.learning import append, read_store, stated
from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio import orchestrator
from rlstudio.experiment.config.experiment import load_experiment

STORE = RESULTS / "model_based.jsonl"
PAGE = ROOT / "docs" / "algorithms" / "mbmpc.md"


NO_VALUE = ("train.planner.value=none",)
TRUST = "train/value_trust"


class Case(NamedTuple):
    """A config, what a seed must reach on average to count, and on how many of ten it is promised."""

    key: str
    config: str
    overrides: tuple[str, ...]
    wanted: float
    promised: int | None
    seeds: int = 10


CASES = (
    Case("cartpole", "configs/mbmpc/cartpole.yaml", (), 500.0, 8),
    Case("pendulum", "configs/mbmpc/pendulum.yaml", (), -200.0, 8),
    Case("cartpole_own_value", "configs/mbmpc/cartpole.yaml", ("train.planner.value=own",), 500.0, None),
    Case("cartpole_guided", "configs/mbmpc/cartpole_guided.yaml", (), 475.0, 8),
    Case("cartpole_guided_no_value", "configs/mbmpc/cartpole_guided.yaml", NO_VALUE, 475.0, None),
    Case("pendulum_guided", "configs/mbmpc/pendulum_guided.yaml", (), -200.0, 8),
    Case("pendulum_guided_no_value", "configs/mbmpc/pendulum_guided.yaml", NO_VALUE, -200.0, None),
)


def identity(case: Case) -> str:
    return stated(load_experiment(case.config, case.overrides))


def run(case: Case, seed: int) -> dict[str, Any]:
    cfg = load_experiment(case.config, [*case.overrides, f"env.seed={seed}", "runtime.threads=1"])
    began, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as runs, orchestrator.session(cfg, runs_dir=runs) as session:
        env_steps, trust = 0, []
        for tick in session:
            env_steps = tick.env_steps
            if tick.report is not None and TRUST in tick.report.metrics:
                trust.append(tick.report.metrics[TRUST])
        evaluation = session.evaluation
    assert evaluation is not None
    trained = {"case": case.key, "seed": seed, "identity": identity(case), "env_steps": env_steps}
    trained |= {"value_trust": round(mean(trust), 3)} if trust else {}
    times = {"seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(time.process_time() - used, 1)}
    return {**trained, "returns": list(evaluation.returns), **times, **provenance({OURS: ours().versions})}


def current(case: Case, stored: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The lines of this config, the newest of each seed."""
    now = identity(case)
    return {line["seed"]: line for line in stored if (line["case"], line["identity"]) == (case.key, now)}


def rows(stored: list[dict[str, Any]]) -> list[list[str]]:
    found = []
    for case in CASES:
        lines = current(case, stored)
        if not lines:
            continue
        means = [mean(line["returns"]) for _, line in sorted(lines.items())]
        reached = sum(score >= case.wanted for score in means)
        first = next(iter(lines.values()))
        promise = "-" if case.promised is None else f"{case.promised} of 10"
        found.append(
            [
                " ".join([f"`{case.config}`", *(f"`{override}`" for override in case.overrides)]),
                f"{first['env_steps']:,}",
                ", ".join(f"{score:.0f}" for score in means),
                f"{reached} of {len(means)} (>= {case.wanted:g})",
                promise,
                _trust(case, list(lines.values())),
                f"{mean(line['cpu_seconds'] for line in lines.values()):.0f} s",
            ]
        )
    return found


def _trust(case: Case, lines: list[dict[str, Any]]) -> str:
    """Mean over the epochs and seeds, where plans count the value that was learned; older lines do not have it."""
    planner = load_experiment(case.config, case.overrides).train.planner
    known = [line["value_trust"] for line in lines if "value_trust" in line]
    return f"{mean(known):.2f}" if known and planner.value == "own" else "-"


def write_page(stored: list[dict[str, Any]]) -> str:
    head = [
        "config",
        "env steps",
        "mean of 10 episodes, by seed",
        "reached",
        "promised",
        "trust in the value",
        "CPU time",
    ]
    text = table(head, rows(stored))
    replace_between(PAGE, "model_based", text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_based", description="MBMPC, seed by seed.")
    parser.add_argument("--cases", nargs="+", choices=[case.key for case in CASES], default=[c.key for c in CASES])
    parser.add_argument("--seeds", type=int, metavar="N", help="only the first N seeds of each case")
    parser.add_argument("--render", action="store_true", help="only write the table again, from stored results")
    args = parser.parse_args()
    for case in CASES:
        seeds = case.seeds if args.seeds is None else min(args.seeds, case.seeds)
        for seed in range(0 if args.render or case.key not in args.cases else seeds):
            if seed in current(case, read_store(STORE)):
                continue
            line = run(case, seed)
            append(STORE, line)
            result = f"{mean(line['returns']):8.1f} in {line['cpu_seconds']:.0f} s"
            print(f"{case.key:24} seed {seed}  {result}", file=sys.stderr, flush=True)
    print(write_page(read_store(STORE)))


if __name__ == "__main__":
    main()
