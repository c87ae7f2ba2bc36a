"""The table of defaults: `python -m benchmarks.defaults`.

What an algorithm does on an environment nobody tuned it for: RLStudio with nothing but its defaults
(`rlctl launch --algo A --env E train.epochs=N train.steps_per_epoch=N`) beside Stable-Baselines3 (QR-DQN: SB3 Contrib)
with nothing but its own, for as many environment steps. Each seed is trained in its own process with one thread; the
last policy, not the best, plays greedy episodes.

Every finished seed is one line of `benchmarks/results/defaults.jsonl`, so the command can be stopped, also by a kill,
and started again. A line of ours counts as long as the complete configuration, defaults included, is the one it was
trained with: whoever changes a default has that algorithm trained anew.

`--peer sb3` trains Stable-Baselines3 instead. Both go algorithm by algorithm, cheapest first, and there seed by seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import defaults_page
from benchmarks.defaults_cells import CELLS, DefaultsCell
from benchmarks.learning import FIRST_SEED, digest, line_key, missing, read_store, train
from benchmarks.records import RESULTS
from benchmarks.settings import OURS, REFERENCE
from benchmarks.venvs import CannotInstall, ours, prepare
from rlstudio.cli.arguments.experiments import ExperimentRequest, choose
from rlstudio.core.config import config_hash

STORE = RESULTS / "defaults.jsonl"
SEEDS = 5
ALGOS = tuple(dict.fromkeys(cell.algo for cell in CELLS))


@dataclass(frozen=True)
class DefaultsTask:
    """One seed of one cell on one side. `identity` is what the result depends on, besides the code."""

    cell: DefaultsCell
    side: str
    seed: int
    identity: str

    @property
    def key(self) -> tuple[str, str, int, str]:
        return (self.cell.key, self.side, self.seed, self.identity)

    @property
    def episodes(self) -> int:
        return self.cell.episodes

    def job(self) -> dict[str, Any]:
        settings = {"seed": self.seed, "threads": 1, "episodes": self.episodes, "first_seed": FIRST_SEED}
        if self.side == OURS:
            cell = self.cell
            return {**settings, "algo": cell.algo, "env_id": cell.env_id, "overrides": cell.overrides}
        return {**settings, "zoo": self.cell.peer, "env_steps": self.cell.env_steps}


def identity(cell: DefaultsCell, side: str) -> str:
    """Ours: the complete configuration, which changes with every default. Theirs: what they are asked for."""
    if side != OURS:
        return digest({"zoo": cell.peer, "env_steps": cell.env_steps})
    request = ExperimentRequest(algo=cell.algo, env_id=cell.env_id, overrides=cell.overrides)
    chosen = choose(request)
    if not chosen.origin.startswith("defaults of"):
        raise SystemExit(f"{cell.key}: {chosen.origin}; this table is about environments without a preset")
    return config_hash(chosen.experiments[0])[:16]


def tasks(cells: Sequence[DefaultsCell], side: str, seeds: int) -> list[DefaultsTask]:
    """Algorithm by algorithm and there seed by seed, so that an early stop leaves whole algorithms."""
    identities = {cell.key: identity(cell, side) for cell in cells}
    return [
        DefaultsTask(cell, side, seed, identities[cell.key])
        for algo in ALGOS
        for seed in range(seeds)
        for cell in cells
        if cell.algo == algo
    ]


def current_lines(stored: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the defaults of today gave: one line for each seed, the newest."""
    current = {task.key for side in (OURS, REFERENCE) for task in tasks(CELLS, side, SEEDS)}
    return list({line_key(line): line for line in stored if line_key(line) in current}.values())


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description="The table of defaults.")
    parser.add_argument("--algos", nargs="+", choices=ALGOS, default=ALGOS, help="which algorithms (default: all)")
    parser.add_argument(
        "--cells", nargs="+", choices=[cell.key for cell in CELLS], metavar="CELL", help="which cells (default: all)"
    )
    parser.add_argument("--chosen-on", action="store_true", help="only the cells on which defaults are chosen")
    parser.add_argument("--peer", choices=[REFERENCE], help="train this library instead of RLStudio")
    parser.add_argument("--seeds", type=int, choices=range(1, SEEDS + 1), default=SEEDS, help="at most so many seeds")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--render", action="store_true", help="only write the table again, from stored results")
    return parser.parse_args(argv)


def wanted_cells(args: argparse.Namespace) -> list[DefaultsCell]:
    return [
        cell
        for cell in CELLS
        if cell.algo in args.algos
        and (args.cells is None or cell.key in args.cells)
        and (cell.chosen_on or not args.chosen_on)
    ]


def main() -> None:
    args = arguments()
    failed = 0
    if not args.render:
        try:
            venv = prepare(args.peer) if args.peer else ours()
        except CannotInstall as error:
            raise SystemExit(f"{args.peer}: cannot be installed here: {error}") from None
        work = missing(tasks(wanted_cells(args), args.peer or OURS, args.seeds), read_store(STORE))
        failed = train(work, venv, args.jobs, STORE)
    print(defaults_page.write(current_lines(read_store(STORE))))
    if failed:
        raise SystemExit(f"{failed} runs failed; start the command again to repeat them")


if __name__ == "__main__":
    main()
