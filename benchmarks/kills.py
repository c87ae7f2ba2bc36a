"""Does a killed run end as if nothing had happened? `python -m benchmarks.kills --kills 200 --seed 0`.

Each run is trained by `rlctl launch` and `rlctl resume`, in processes that are killed with SIGKILL at random moments. A
kill counts only when it hit a living run that had trained since its last start (`benchmarks/killed_runs.py`). It is
exact when the run, once it is finished, has the `state_hash`, evaluation and metrics of its uninterrupted twin, says
`exact: yes`, and leaves no process and no temporary file behind. The folders of a run that is not stay.

Every finished run is one line of `benchmarks/results/kills.jsonl`, so the command can be stopped and started again: it
goes on until the seed has as many kills as asked for. Exit status 1 when one was not exact, or when there are fewer.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.kill_cases import CASES, DATASET, VECTORIZATIONS, KillCase
from benchmarks.killed_runs import Attempt, Ending, KilledRun, fork_rlctl, killed_to_the_end, succeed
from benchmarks.learning import append, read_store
from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio.core.catalog import ALGOS
from rlstudio.experiment.training.machine import set_threads
from rlstudio.experiment.training.numerics import fingerprint

STORE = RESULTS / "kills.jsonl"
PAGE = ROOT / "docs" / "howto" / "resume.md"
KILLS_PER_RUN = 5
PRELOADED = (
    "gymnasium.envs.classic_control",
    "rlstudio.cli.commands.launch",
    "rlstudio.cli.watch",
    "rlstudio.control.runs.start",
    "rlstudio.control.store.registry_tables",
    "rlstudio.control.store.sweep_tables",
    *(ALGOS.builtin[algo].module for algo in ALGOS.builtin),
)


class Twins:
    """The uninterrupted run of each case, trained when it is first asked for."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._endings: dict[str, Ending] = {}

    def of(self, case: KillCase) -> Ending:
        if case.name not in self._endings:
            if case.algo == "bc":
                self._record_dataset()
            self._endings[case.name] = KilledRun(case, self.folder(case)).finish()
        return self._endings[case.name]

    def folder(self, case: KillCase) -> Path:
        return self._place / case.name

    def _record_dataset(self) -> None:
        """What BC learns from: episodes of the PPO twin."""
        teacher = next(case for case in CASES if case.algo == "ppo")
        self.of(teacher)
        folder = self.folder(teacher)
        options = ["--episodes", "20", "--dataset", DATASET, "--runs-dir", str(folder / "runs")]
        succeed(fork_rlctl(["record", "last", *options], folder), folder)


def lines_of(cases: Sequence[KillCase], seed: int, stored: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What today's cases gave with this seed: the newest line of each round."""
    identities = {case.name: case.identity for case in cases}
    mine = [line for line in stored if line["seed"] == seed and identities.get(line["case"]) == line["identity"]]
    return list({(line["case"], line["round"]): line for line in mine}.values())


def missing(cases: Sequence[KillCase], seed: int, kills: int, store: Path) -> Iterator[tuple[KillCase, int, int]]:
    """Case, round and number of kills of what is to be done next; round by round, so that an early stop is balanced.
    It ends without as many kills where a whole round brought none."""
    for number in count():
        before, tried = total(lines_of(cases, seed, read_store(store))), 0
        for case in cases:
            lines = lines_of(cases, seed, read_store(store))
            left = kills - total(lines)
            if left <= 0:
                return
            if not any((line["case"], line["round"]) == (case.name, number) for line in lines):
                tried += 1
                yield case, number, min(KILLS_PER_RUN, left)
        if tried and total(lines_of(cases, seed, read_store(store))) == before:
            return


def total(lines: Sequence[dict[str, Any]]) -> int:
    return sum(len(line["kills"]) for line in lines)


def kill_runs(cases: Sequence[KillCase], seed: int, kills: int, store: Path = STORE) -> None:
    versions = {OURS: ours().versions}
    with tempfile.TemporaryDirectory(prefix="rlstudio-kills-") as folder, contextlib.chdir(folder):
        prepare_forks(Path(folder))
        twins = Twins(Path(folder) / "twins")
        for case, number, wanted in missing(cases, seed, kills, store):
            twin = twins.of(case)
            run = KilledRun(case, Path(folder) / f"{case.name}-{number}")
            attempt = killed_to_the_end(run, twin, wanted, random.Random(f"{seed}/{case.name}/{number}"))
            append(store, {**line_of(case, seed, number, attempt, twin), **provenance(versions)})
            words = f"{attempt.difference}; see {kept(run, twins)}" if attempt.difference else "exact"
            print(f"{case.name:24} {len(attempt.kills)} kills  {words}", file=sys.stderr, flush=True)
            shutil.rmtree(run.folder)


def kept(run: KilledRun, twins: Twins) -> Path:
    """A copy of the run and of its twin."""
    place = Path(tempfile.mkdtemp(prefix="rlstudio-differs-"))
    shutil.copytree(run.folder, place / "killed")
    shutil.copytree(twins.folder(run.case), place / "twin")
    return place


def prepare_forks(place: Path) -> None:
    """What every process inherits: imported modules of this tree, one thread, datasets in `place`, and none of the
    caller's RLStudio settings. Without threads in this process, because a fork would not have them."""
    for name in [name for name in os.environ if name.startswith("RLSTUDIO_")]:
        del os.environ[name]
    os.environ |= {"MINARI_DATASETS_PATH": str(place / "datasets"), "SDL_VIDEODRIVER": "dummy"}
    for module in PRELOADED:
        importlib.import_module(module)
    set_threads(1)
    fingerprint("cpu")  # what it finds is the same in each of them


def line_of(case: KillCase, seed: int, number: int, attempt: Attempt, twin: Ending) -> dict[str, Any]:
    which = {"case": case.name, "seed": seed, "round": number, "identity": case.identity}
    cell = {"row": case.row, "vectorization": case.vectorization}
    result = {"kills": attempt.kills, "missed": attempt.missed, "difference": attempt.difference}
    return {**which, **cell, **result, "state_hash": twin.state_hash, "metrics": len(twin.metrics)}


def report(lines: Sequence[dict[str, Any]]) -> str:
    """Algorithm by vectorisation: kills that were exact, of all that counted."""
    if not lines:
        return "No run has been killed yet."
    rows = []
    for row in dict.fromkeys(line["row"] for line in lines):
        ways = [[ln for ln in lines if (ln["row"], ln["vectorization"]) == (row, way)] for way in VECTORIZATIONS]
        rows.append([row, *(_cell(way) for way in ways), _cell([ln for ln in lines if ln["row"] == row])])
    ways = [[ln for ln in lines if ln["vectorization"] == way] for way in VECTORIZATIONS]
    rows.append(["all", *(_cell(way) for way in ways), _cell(lines)])
    body = table(["exact / kills", *VECTORIZATIONS, "all"], rows)
    machine, missed = lines[-1]["machine"], sum(line["missed"] for line in lines)
    notes = f"{lines[-1]['date']}; {machine['cores']} cores ({machine['processor']}); {len(lines)} runs"
    command = f"python -m benchmarks.kills --kills {total(lines)} --seed {lines[-1]['seed']}"
    return f"{body}\n\n<sub>`{command}`, {notes}; {missed} more kills came too late and do not count.</sub>"


def _cell(lines: Sequence[dict[str, Any]]) -> str:
    exact = total([line for line in lines if not line["difference"]])
    return f"{exact} / {total(lines)}" if lines else ""


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description="Runs killed at random moments.")
    parser.add_argument("--kills", type=int, default=200, help="how many kills must have hit a training run")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--cases", nargs="+", choices=names, default=names, help="which runs (default: all)")
    parser.add_argument("--render", action="store_true", help="only write the table again, from stored results")
    return parser.parse_args(argv)


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: processes and folders are removed
    cases = [case for case in CASES if case.name in args.cases]
    if not args.render:
        kill_runs(cases, args.seed, args.kills)
    lines = lines_of(cases, args.seed, read_store(STORE))
    text = report(lines)
    if len(cases) == len(CASES):
        replace_between(PAGE, "kills", text)
    print(text)
    different = [f"{line['case']}: {line['difference']}" for line in lines if line["difference"]]
    print("\n".join(different), file=sys.stderr)
    return 1 if different or total(lines) < args.kills else 0


if __name__ == "__main__":
    sys.exit(main())
