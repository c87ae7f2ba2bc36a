"""The zoo: `python -m benchmarks.zoo` (that is `make zoo`) makes a bundle for every config of the learning table.

A bundle is the last policy of one seed, trained and judged as the learning table does it: from the YAML file, one
process, one thread, 50 greedy episodes on the plain Gymnasium environment from seeds that no training uses. It is kept
only if its score lies within the 95 % interval that the learning table gives for its config. Seeds are tried in the
order of how close their stored score lies to the middle of that interval; how many were tried is recorded with the
bundle.

The command can be stopped and started again: what is there and still lies within the interval is not trained twice, nor
is a seed that missed it on this machine. Bundles and `index.json` go to `src/rlstudio/zoo`, the table to `docs/zoo.md`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks import learning, learning_page
from benchmarks.cells import CELLS, Cell
from benchmarks.jobs import JobFailed, run_job
from benchmarks.page import replace_between, table
from benchmarks.records import machine, provenance
from benchmarks.settings import OURS
from benchmarks.venvs import FOLDER, ROOT, ours
from rlstudio.delivery.bundle import open_bundle
from rlstudio.experiment.config.experiment import load_experiment

ZOO = ROOT / "src" / "rlstudio" / "zoo"
INDEX = ZOO / "index.json"
TRIED = FOLDER / "zoo.jsonl"
"""Seeds that missed the interval, by machine: the same seed gives the same bits there."""
PAGE = ROOT / "docs" / "zoo.md"
EPISODES = 50
SEEDS = 10
"""Of the learning table, at most so many of each cell."""

Entry = dict[str, Any]


def name_of(cell: Cell) -> str:
    """`ppo/cartpole`: the config without its folder and ending."""
    return cell.config.removeprefix("configs/").removesuffix(".yaml")


def goals() -> dict[str, learning_page.Score]:
    """What the learning table says of each cell."""
    lines = learning.current_lines(learning.read_store(), SEEDS)
    found = {}
    for cell in CELLS:
        mine = [line for line in lines if line["cell"] == cell.key and line["side"] == OURS]
        if mine:
            found[cell.key] = learning_page.score(mine)
    return found


def seconds_of(cell: Cell) -> float:
    """How long a seed took, so that cheap ones come first."""
    taken = [x["seconds"] for x in learning.read_store() if x["cell"] == cell.key and x["side"] == OURS]
    return fmean(taken) if taken else float("inf")


def seeds_of(goal: learning_page.Score, tries: int) -> list[int]:
    """Seeds by how close their stored score lies to the middle, then seeds that the table does not have."""
    stored = sorted(range(len(goal.means)), key=lambda seed: (abs(goal.means[seed] - goal.iqm), seed))
    return [*stored, *range(len(stored), tries)][:tries]


def read_index(path: Path = INDEX) -> dict[str, Entry]:
    found: dict[str, Entry] = json.loads(path.read_text()) if path.exists() else {}
    return found


def is_within(score: float, goal: learning_page.Score) -> bool:
    return goal.low <= score <= goal.high


def is_kept(cell: Cell, entry: Entry | None, goal: learning_page.Score) -> bool:
    """Whether the bundle is there, made from today's config, and its score within today's interval."""
    if entry is None or entry["identity"] != learning.table_identity(load_experiment(cell.config)):
        return False
    place = ZOO / name_of(cell)
    return place.is_dir() and open_bundle(place).sha256 == entry["sha256"] and is_within(entry["score"], goal)


class Attempt(NamedTuple):
    """One seed of one cell; `number` of its tries."""

    number: int
    cell: Cell
    seed: int


def attempts(
    cells: Sequence[Cell], known: dict[str, learning_page.Score], tries: int, *, longest_first: bool = False
) -> list[Attempt]:
    """First tries of all cells first, without seeds that missed on this machine before."""
    where = machine()["processor"]
    missed = {(line["identity"], line["seed"]) for line in learning.read_store(TRIED) if line["machine"] == where}
    found = []
    for cell in sorted(cells, key=seconds_of, reverse=longest_first):
        identity = learning.table_identity(load_experiment(cell.config))
        seeds = enumerate(seeds_of(known[cell.key], tries), 1)
        found += [Attempt(number, cell, seed) for number, seed in seeds if (identity, seed) not in missed]
    return sorted(found, key=lambda attempt: attempt.number)


def train(attempt: Attempt, goal: learning_page.Score) -> Entry | None:
    """What the learner says of the seed, with its score; None where that does not lie within the interval."""
    cell, seed = attempt.cell, attempt.seed
    identity = learning.table_identity(load_experiment(cell.config))
    part = unfinished(attempt)
    shutil.rmtree(part, ignore_errors=True)
    job: dict[str, Any] = {"seed": seed, "threads": 1, "episodes": EPISODES, "first_seed": learning.FIRST_SEED}
    job |= {"config": cell.config, "overrides": [], "bundle": str(part)}
    answer = run_job(ours().python, "rlstudio_learner", job, timeout=learning.TIMEOUT_S)
    score = round(fmean(answer["returns"]), 4)
    within = is_within(score, goal)
    verdict = "kept" if within else "missed"
    print(f"{cell.key:26} seed {seed}  {score:.1f} in {answer['seconds']:.0f} s, {verdict} {goal}", file=sys.stderr)
    sys.stderr.flush()
    if not within:
        learning.append(TRIED, {"identity": identity, "machine": machine()["processor"], "seed": seed, "score": score})
        return None
    return {**answer, "score": score, "identity": identity}


def unfinished(attempt: Attempt) -> Path:
    """Where the learner writes the bundle."""
    return FOLDER / "zoo" / f"{attempt.cell.key}-{attempt.seed}"


def put(attempt: Attempt, answer: Entry) -> Entry:
    """Take the bundle over; its entry of the index."""
    cell = attempt.cell
    place = ZOO / name_of(cell)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for file in unfinished(attempt).iterdir():  # without its mode: a run is private, a package is for all users
        (place / file.name).write_bytes(file.read_bytes())
    bundle = open_bundle(place)
    facts = {"config": cell.config, "env_id": bundle.spec.env_id, "env_steps": answer["env_steps"]}
    judged = {
        "seed": attempt.seed,
        "score": answer["score"],
        "episodes": EPISODES,
        "tried": attempt.number,
        "seconds": answer["seconds"],
    }
    size = sum(file.size for file in bundle.files.values())
    return {
        **facts,
        **judged,
        "identity": answer["identity"],
        "sha256": bundle.sha256,
        "size": size,
        **provenance(_versions()),
    }


def _versions() -> dict[str, dict[str, str]]:
    return {OURS: ours().versions}


def write_index(index: dict[str, Entry]) -> None:
    ZOO.mkdir(parents=True, exist_ok=True)
    part = INDEX.with_suffix(".part")
    part.write_text(json.dumps(dict(sorted(index.items())), indent=1) + "\n")
    part.replace(INDEX)


def render(index: dict[str, Entry]) -> str:
    """The table of the page, in the order of the learning table."""
    rows, known = [], goals()
    for cell in CELLS:
        entry = index.get(name_of(cell))
        if entry is None:
            continue
        size = f"{entry['size'] / 1000:.0f} kB"
        facts = [f"{entry['env_steps']:,}", f"{entry['score']:.1f}", str(known[cell.key]), str(entry["seed"]), size]
        rows.append([f"`zoo:{name_of(cell)}`", f"`{entry['env_id']}`", *facts])
    header = ["policy", "environment", "trained steps", "score", "learning table, IQM [95 %]", "seed", "size"]
    text = table(header, rows)
    missing = [name_of(cell) for cell in CELLS if name_of(cell) not in index]
    total = sum(entry["size"] for entry in index.values())
    note = f"{len(index)} of {len(CELLS)} configs, {total / 1e6:.1f} MB in all."
    text += f"\n\n{note}" + (f" Not there yet: {', '.join(missing)}." if missing else "")
    replace_between(PAGE, "zoo", text)
    return text


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    keys = [cell.key for cell in CELLS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description="The zoo of trained policies.")
    parser.add_argument(
        "--cells", nargs="+", choices=keys, default=keys, metavar="CELL", help="which cells (default: all)"
    )
    parser.add_argument("--tries", type=int, default=6, help="at most so many seeds of each cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time; with many, long cells come first")
    parser.add_argument("--render", action="store_true", help="only write the table again")
    return parser.parse_args(argv)


def make_all(work: Sequence[Attempt], known: dict[str, learning_page.Score], jobs: int) -> set[str]:
    """Cells that got their bundle, which ends the tries of a cell."""
    made: set[str] = set()
    lock = threading.Lock()

    def one(attempt: Attempt) -> None:
        key = attempt.cell.key
        if key in made:
            return
        try:
            answer = train(attempt, known[key])
        except JobFailed as error:
            print(f"{key}: {error}", file=sys.stderr, flush=True)
            return
        with lock:
            if answer is not None and key not in made:
                made.add(key)
                write_index({**read_index(), name_of(attempt.cell): put(attempt, answer)})

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        list(pool.map(one, work))
    return made


def main() -> None:
    args = arguments()
    known, index = goals(), read_index()
    wanted = [cell for cell in CELLS if cell.key in args.cells and cell.key in known and not args.render]
    wanted = [cell for cell in wanted if not is_kept(cell, index.get(name_of(cell)), known[cell.key])]
    made = make_all(attempts(wanted, known, args.tries, longest_first=args.jobs > 2), known, args.jobs)
    print(render(read_index()))
    if failed := [cell.key for cell in wanted if cell.key not in made]:
        raise SystemExit(f"no bundle within the interval for {', '.join(failed)}; give more --tries")


if __name__ == "__main__":
    main()
