"""What does it cost a run to measure itself? `python -m benchmarks.measuring [--pairs N] [--algos NAME ...]`.

One run of an algorithm with its default settings, whose epochs are in turns as they always are and with nothing
measured: no losses, KL, entropy, Q scale, clip fraction or explained variance beyond what learning itself needs, no
health of the replay, no times and percentiles, no use of the machine, no metrics written. Counted are the CPU seconds
of the process, epoch by epoch, so that both sides see the same machine and the same policy.

    cost = median over pairs of neighbouring epochs (measured / not measured) - 1

The seconds of an epoch include its flush and what the run does besides. What the collector notes of each episode
(return, length) is part of both sides. Exit status 1 where an algorithm's cost is 2 % or more. `--store` keeps the
numbers for `make kpi`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.page import table
from benchmarks.records import provenance, write_result
from benchmarks.settings import OURS
from benchmarks.venvs import ours
from rlstudio import orchestrator
from rlstudio.algos import dqn, ppo, sac
from rlstudio.core.contracts import Trainer
from rlstudio.data.replay import source
from rlstudio.experiment.metrics.recorder import Recorder
from rlstudio.experiment.training.epoch_clock import EpochClock
from rlstudio.experiment.training.position import Position, Report

MOST = 0.02
WARM_UP_EPOCHS = 4
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "ppo": {"env": {"id": "CartPole-v1"}},
    "dqn": {"env": {"id": "CartPole-v1"}},
    "sac": {"env": {"id": "Pendulum-v1"}, "train": {"steps_per_epoch": 256}},
}
LOSSES: tuple[tuple[Any, str], ...] = (
    (ppo, "ppo_loss"),
    (dqn, "dqn_loss"),
    (sac, "sac_policy_loss"),
    (sac, "twin_loss"),
)
NOTHING = {"guard/bad_row_share": 0.0, "guard/skipped_share": 0.0}


class _Unused(ast.NodeTransformer):
    """Leaves out assignments to names that nothing reads, and blocks that are empty then."""

    def __init__(self, tree: ast.AST) -> None:
        names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
        self._read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        self.left_out = 0

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        stored = [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        if self._read.isdisjoint(stored):
            self.left_out += 1
            return None
        return node

    def visit_With(self, node: ast.With) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body else None


def unmeasured(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The same loss, which ends with an empty dict in place of its metrics and does nothing that only they needed."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(loss)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            node.value.elts[-1] = ast.Dict([], [])
    while (unused := _Unused(tree)) and (tree := unused.visit(tree)) and unused.left_out:
        pass
    names = dict(vars(inspect.getmodule(loss)))
    exec(compile(ast.fix_missing_locations(tree), loss.__name__, "exec"), names)
    made: Callable[..., Any] = names[loss.__name__]
    return made


def _bare_report(position: Position, trainer: Trainer) -> Report:
    trainer.source.take()
    return Report(position.epoch, trainer.source.env_steps, trainer.gradient_steps, NOTHING)


def _nothing(*_: object, **__: object) -> None:
    pass


def _nothing_measured(*_: object) -> dict[str, float]:
    return {}


def not_measuring() -> ExitStack:
    """While it is open, runs of this process learn and measure nothing."""
    stack, zero = ExitStack(), torch.zeros(())
    for module, name in LOSSES:
        stack.enter_context(patch.object(module, name, unmeasured(getattr(module, name))))
    stack.enter_context(patch.object(ppo, "explained_variance", lambda *_: zero))
    stack.enter_context(patch.object(ppo, "policy_change", _nothing_measured))
    stack.enter_context(patch.object(source, "replay_health", _nothing_measured))
    stack.enter_context(patch.object(EpochClock, "take", lambda _: {}))
    stack.enter_context(patch.object(Position, "report", _bare_report))
    for owner, name in (
        (EpochClock, "start"),
        (EpochClock, "stop"),
        (Position, "add"),
        (Recorder, "write"),
        (Recorder, "write_clock"),
    ):
        stack.enter_context(patch.object(owner, name, _nothing))
    return stack


def epochs(algo: str, count: int) -> Iterator[float]:
    """CPU seconds of each epoch after the warm-up; every second one measures nothing."""
    own = EXPERIMENTS[algo]
    train = {**own.get("train", {}), "epochs": count + WARM_UP_EPOCHS}
    experiment = {
        "env": {**own["env"], "seed": 1},
        "policy": {"algo": algo},
        "train": train,
        "eval": {"every_epochs": 0, "final_episodes": 1},
        "runtime": {"threads": 1},
    }
    with tempfile.TemporaryDirectory() as folder, orchestrator.session(experiment, runs_dir=folder) as session:
        off, began = ExitStack(), time.process_time()
        for tick in session:
            if tick.report is None:
                continue
            now = time.process_time()
            if tick.epoch > WARM_UP_EPOCHS:
                yield now - began
            off.close()
            off = not_measuring() if (tick.epoch - WARM_UP_EPOCHS) % 2 else ExitStack()
            began = time.process_time()
        off.close()


def cost(seconds: Sequence[float]) -> tuple[float, float, float]:
    """The median over pairs, and the ends of its 95 % bootstrap interval."""
    ratios = np.array(seconds[::2]) / np.array(seconds[1::2]) - 1
    drawn = np.median(np.random.default_rng(0).choice(ratios, (10_000, len(ratios))), axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(median(ratios)), float(low), float(high)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measuring", description="What measuring costs a run.")
    parser.add_argument("--pairs", type=int, default=100, help="of epochs, for each algorithm (default: 100)")
    parser.add_argument("--algos", nargs="+", choices=sorted(EXPERIMENTS), default=list(EXPERIMENTS))
    parser.add_argument("--store", action="store_true", help="keep the numbers in benchmarks/results/measuring.json")
    args = parser.parse_args(argv)
    if args.pairs < 2:
        parser.error("at least 2 pairs")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    rows, measured = [], {}
    for algo in args.algos:
        seconds = list(epochs(algo, 2 * args.pairs))
        middle, low, high = cost(seconds)
        measured[algo] = {"cost": round(middle, 5), "low": round(low, 5), "high": round(high, 5), "pairs": args.pairs}
        rows.append([algo, f"{1000 * median(seconds):.0f}", f"{middle:+.2%} [{low:+.2%}, {high:+.2%}]"])
        print(*rows[-1], file=sys.stderr, flush=True)
    print(table(["algorithm", "CPU ms per epoch", "cost of measuring [95 %]"], rows))
    if args.store:
        write_result("measuring", {**provenance({OURS: ours().versions}), "measurements": measured})
    return int(any(of["cost"] >= MOST for of in measured.values()))


if __name__ == "__main__":
    sys.exit(main())
