"""The learning table: `python -m benchmarks.learning` (that is `make bench-learning`).

Each seed of each cell is trained in its own process with one thread, from the YAML file a user would launch; the last
policy, not the best, plays greedy episodes on the plain Gymnasium environment. Every finished seed is one line of
`benchmarks/results/learning.jsonl`, so the command can be stopped and started again: what is there with the same config
is not trained twice. What a config does not say is not part of that: a new field whose default changes nothing leaves
stored results valid, and whoever changes a default raises `DEFAULTS`.

`--held-out` trains the seeds 101 to 105 instead, which nobody looked at while a config was made; they have a column of
their own. `--peer sb3` trains Stable-Baselines3 with rl-zoo3's hyper-parameters for as many steps. `--against baseline`
trains seeds anew and compares them with the stored ones by an interval (`benchmarks/regression.py`): exit status 1
where a cell is worse.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks import learning_page, regression
from benchmarks.cells import CELLS, Cell
from benchmarks.jobs import JobFailed, run_job
from benchmarks.records import RESULTS, provenance
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, CannotInstall, Venv, ours, prepare
from rlstudio.experiment.config.experiment import ExperimentConfig, load_experiment

STORE = RESULTS / "learning.jsonl"
NEW = ROOT / ".bench" / "learning-new.jsonl"
"""Seeds that are only compared with the table."""

FIRST_SEED = 10_000_000
"""Judging episodes start here, far from any seed that trains."""

HELD_OUT = range(101, 106)
"""Seeds that chose nothing."""

TIMEOUT_S = 4 * 3600.0

DEFAULTS = 1
"""Raised when the default of a config field changes, because results with the old one no longer count."""


class LearnerTask(Protocol):
    """One seed to train in a process of its own; `key` names the line that it becomes."""

    @property
    def key(self) -> tuple[str, str, int, str]: ...

    @property
    def episodes(self) -> int: ...

    def job(self) -> dict[str, Any]: ...


T = TypeVar("T", bound=LearnerTask)


@dataclass(frozen=True)
class Task:
    """One seed of one cell on one side. `identity` is what the result depends on, besides the code."""

    cell: Cell
    side: str
    seed: int
    identity: str
    env_steps: int
    episodes: int

    @property
    def key(self) -> tuple[str, str, int, str]:
        return (self.cell.key, self.side, self.seed, self.identity)

    def job(self) -> dict[str, Any]:
        told = {"seed": self.seed, "threads": 1, "episodes": self.episodes, "first_seed": FIRST_SEED}
        if self.side == OURS:
            return {**told, "config": self.cell.config, "overrides": []}
        return {**told, "zoo": self.cell.zoo, "env_steps": self.env_steps}


def tasks(cells: Sequence[Cell], side: str, seeds: int, episodes: int) -> list[Task]:
    """Seed by seed over all cells, so that an early stop leaves a balanced table; at most as many as a cell wants."""
    return [
        _task(cell, side, seed, episodes)
        for seed in range(seeds)
        for cell in cells
        if seed < cell.seeds and (side == OURS or cell.zoo is not None)
    ]


def held_out_tasks(cells: Sequence[Cell], episodes: int) -> list[Task]:
    """The same of ours on the seeds that chose nothing."""
    return [_task(cell, OURS, seed, episodes) for seed in HELD_OUT for cell in cells]


def _task(cell: Cell, side: str, seed: int, episodes: int) -> Task:
    cfg = load_experiment(cell.config)
    steps = cfg.train.planned_steps
    identity = table_identity(cfg) if side == OURS else digest({"zoo": cell.zoo, "env_steps": steps})
    return Task(cell, side, seed, identity, steps, episodes)


def stated(cfg: ExperimentConfig) -> str:
    """What a config says about the result, as a short name."""
    return digest({"config": _statement(cfg), "defaults": DEFAULTS})


def table_identity(cfg: ExperimentConfig) -> str:
    """The same for this table, which is older than `train.total_steps`: null, which says nothing, is left out of it.
    A config is given that null while its length is rounded, so it counts as written down."""
    statement = _statement(cfg)
    if statement["train"].get("total_steps", 0) is None:
        del statement["train"]["total_steps"]
    return digest({"config": statement, "defaults": DEFAULTS})


def _statement(cfg: ExperimentConfig) -> dict[str, Any]:
    """The fields that are written down, without those that cannot change a result."""
    data = cfg.model_dump(mode="json", exclude_unset=True)
    for name in cfg.not_hashed:
        *sections, last = name.split(".")
        inner = data
        for section in sections:
            inner = inner.get(section, {})
        inner.pop(last, None)
    return data


def digest(value: Any) -> str:
    """A short name for plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def read_store(path: Path = STORE) -> list[dict[str, Any]]:
    """All finished seeds; a torn last line (a kill while writing) is none."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def line_key(line: dict[str, Any]) -> tuple[str, str, int, str]:
    return (line["cell"], line["side"], line["seed"], line["identity"])


def missing(wanted: Sequence[T], stored: Sequence[dict[str, Any]]) -> list[T]:
    """What is not there yet with this config and at least as many judging episodes."""
    done = {line_key(line): len(line["returns"]) for line in stored}
    return [task for task in wanted if done.get(task.key, 0) < task.episodes]


def current_lines(stored: Sequence[dict[str, Any]], seeds: int) -> list[dict[str, Any]]:
    """What the configs of today gave: one line for each seed, the newest."""
    return _newest(stored, [task for side in (OURS, "sb3") for task in tasks(CELLS, side, seeds, episodes=1)])


def held_out_lines(stored: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of the seeds that chose nothing."""
    return _newest(stored, held_out_tasks(CELLS, episodes=1))


def _newest(stored: Sequence[dict[str, Any]], wanted: Sequence[Task]) -> list[dict[str, Any]]:
    keys = {task.key for task in wanted}
    return list({line_key(line): line for line in stored if line_key(line) in keys}.values())


def append(path: Path, line: dict[str, Any]) -> None:
    """One whole line; a torn one before it is closed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(("\n" if torn else "") + json.dumps(line) + "\n")


def train(work: Sequence[LearnerTask], venv: Venv, jobs: int, store: Path = STORE) -> int:
    """Train what is missing, `jobs` at a time; returns how many failed."""
    failed = 0
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running = {pool.submit(_train_one, task, venv): task for task in work}
        for done, future in enumerate(as_completed(running), 1):
            task = running[future]
            try:
                line = future.result()
            except JobFailed as error:
                failed += 1
                told = f"failed: {error}"
            else:
                append(store, line)
                told = f"{sum(line['returns']) / len(line['returns']):8.1f} in {line['seconds']:.0f} s"
            cell, side, seed, _ = task.key
            where = f"[{done}/{len(work)}] {cell:26} {side:8} seed {seed}"
            print(f"{where}  {told}", file=sys.stderr, flush=True)
    return failed


def _train_one(task: LearnerTask, venv: Venv) -> dict[str, Any]:
    cell, side, seed, identity = task.key
    found = run_job(venv.python, f"{side}_learner", task.job(), timeout=TIMEOUT_S)
    line = {"cell": cell, "side": side, "seed": seed, "identity": identity}
    return {**line, **found, **provenance({side: venv.versions})}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    keys = [cell.key for cell in CELLS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description="The learning table.")
    parser.add_argument(
        "--cells", nargs="+", choices=keys, default=keys, metavar="CELL", help="which cells (default: all)"
    )
    parser.add_argument("--peer", choices=["sb3"], help="train this library instead of RLStudio")
    parser.add_argument(
        "--held-out", action="store_true", help="train the seeds 101 to 105 of ours, which chose nothing"
    )
    parser.add_argument("--seeds", type=int, default=10, help="at most so many seeds of each cell")
    parser.add_argument("--episodes", type=int, default=50, help="judging episodes of each seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--render", action="store_true", help="only write the table again, from stored results")
    parser.add_argument(
        "--against",
        metavar="baseline|FILE",
        help="train anew, into --out, and compare with the stored table or a file like it; fail where it is worse",
    )
    parser.add_argument("--out", type=Path, default=NEW, help="with --against: the file for new seeds")
    args = parser.parse_args(argv)
    if args.against and (args.peer or args.render):
        parser.error("--against: compares RLStudio with itself; leave --peer and --render out")
    if args.held_out and (args.peer or args.against):
        parser.error("--held-out: trains RLStudio for the table; leave --peer and --against out")
    return args


def compare_with(baseline: Path, args: argparse.Namespace) -> int:
    """Train what is missing of the new seeds, and say where they are worse. Nothing stored is changed."""
    if not baseline.is_file():
        raise SystemExit(f"--against {baseline}: no such file; give baseline for the stored table")
    cells = [cell for cell in CELLS if cell.key in args.cells]
    wanted = tasks(cells, OURS, args.seeds, args.episodes)
    failed = train(missing(wanted, read_store(args.out)), ours(), args.jobs, args.out)
    keys = {task.key for task in wanted}
    new = [line for line in read_store(args.out) if line_key(line) in keys]
    results = regression.differences(read_store(baseline), new, OURS)
    print(regression.report(results))
    for cell in sorted({line["cell"] for line in new} - {each.cell for each in results}):
        print(f"{cell}: no stored seed with this config, nothing to compare with", file=sys.stderr)
    return int(failed > 0 or any(each.is_regression for each in results))


def main() -> None:
    args = arguments()
    if args.against:
        raise SystemExit(compare_with(STORE if args.against == "baseline" else Path(args.against), args))
    cells = [cell for cell in CELLS if cell.key in args.cells]
    failed = 0
    if not args.render:
        try:
            venv = prepare(args.peer) if args.peer else ours()
        except CannotInstall as error:
            raise SystemExit(f"{args.peer}: cannot be installed here: {error}") from None
        usual = tasks(cells, args.peer or OURS, args.seeds, args.episodes)
        wanted = held_out_tasks(cells, args.episodes) if args.held_out else usual
        failed = train(missing(wanted, read_store()), venv, args.jobs)
    stored = read_store()
    print(learning_page.write(current_lines(stored, args.seeds), held_out_lines(stored)))
    if failed:
        raise SystemExit(f"{failed} runs failed; start the command again to repeat them")


if __name__ == "__main__":
    main()
