"""Every KPI of `docs/kpi.md` with its goal and its value: `make kpi`, or `python -m benchmarks.kpi [--json]`.

The page is the one list. A value comes from the stored results of the command that measures it, with the day it was
measured on; where nothing is stored, the command stands in its place. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks import defaults, doctor, kills, learning, learning_page
from benchmarks.cells import CELLS
from benchmarks.defaults_cells import CELLS as DEFAULTS_CELLS
from benchmarks.defaults_page import improvement, seeds_of
from benchmarks.records import read_result
from benchmarks.settings import OURS, REFERENCE_ENTRY, ROWS, SOLVE_ROW
from benchmarks.summary import facts_of, solves, speeds
from benchmarks.venvs import ROOT

PAGE = ROOT / "docs" / "kpi.md"
ALGORITHMS = ROOT / "src" / "rlstudio" / "algos"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Kpi(NamedTuple):
    section: str
    name: str
    command: str
    goal: str


class Value(NamedTuple):
    """What was measured, and when; empty where it is as of now."""

    text: str
    date: str = ""


def listed(page: str) -> Iterator[Kpi]:
    """The rows of the tables of the page, in their order."""
    section = ""
    for line in page.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        cells = [LINK.sub(r"\1", cell.strip()) for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "KPI" and not cells[0].startswith("---"):
            yield Kpi(section, cells[0], cells[2].replace("`", ""), cells[3])


def _kills() -> Value | None:
    stored = learning.read_store(kills.STORE)
    count = kills.total(stored)
    inexact = sum(bool(line["difference"]) for line in stored)
    return Value(f"{count} kills, {inexact} not exact", stored[-1]["date"]) if stored else None


def _learning() -> Value | None:
    lines = learning.current_lines(learning.read_store(), 10)
    kept = total = 0
    for cell in CELLS:
        of_cell = {
            side: [line for line in lines if (line["cell"], line["side"]) == (cell.key, side)] for side in (OURS, "sb3")
        }
        if of_cell[OURS]:
            mine = learning_page.score(of_cell[OURS])
            other = learning_page.score(of_cell["sb3"]) if of_cell["sb3"] else None
            total += 1
            kept += not learning_page.verdict(cell, mine, other).startswith("**")
    return Value(f"{kept} of {total} environments", max(line["date"] for line in lines)) if total else None


def _seeds_solved() -> Value | None:
    cell = next(cell for cell in CELLS if cell.config == "configs/ppo/cartpole_mvp.yaml")
    current = learning.current_lines(learning.read_store(), 10)
    lines = [line for line in current if (line["cell"], line["side"]) == (cell.key, OURS)]
    if not lines:
        return None
    score = learning_page.score(lines)
    return Value(f"{learning_page.solved(cell, score)} of {len(score.means)}", max(line["date"] for line in lines))


def _defaults() -> Value | None:
    lines = learning.read_store(defaults.STORE)
    seeds = [seeds_of(cell, lines) for cell in DEFAULTS_CELLS]
    whole = [sides for sides in seeds if all(len(side) for side in sides.values())]
    return Value(str(improvement(whole)), max(line["date"] for line in lines)) if whole else None


def _speed(row: str, vectorization: str) -> Callable[[], Value | None]:
    """The ratio of our entry of a row to the reference."""

    def value() -> Value | None:
        result = read_result(f"speed_{row}")
        if result is None:
            return None
        rates = speeds(result["measurements"])
        entry = next(entry for entry in _entries(row) if entry.side == OURS and entry.vectorization == vectorization)
        if not {entry.key, REFERENCE_ENTRY.key} <= rates.keys():
            return None
        ratio = rates[entry.key].best / rates[REFERENCE_ENTRY.key].best
        return Value(f"{ratio:.2f}", facts_of(result, OURS)["date"])

    return value


def _entries(row: str) -> Sequence[Any]:
    return next(each for each in ROWS if each.key == row).entries


def _time_to_475() -> Value | None:
    result = read_result(f"speed_{SOLVE_ROW.key}")
    if result is None:
        return None
    times = solves(result["measurements"])
    mine, other = times.get(SOLVE_ROW.entries[0].key), times.get(REFERENCE_ENTRY.key)
    return None if mine is None or other is None else Value(f"{mine.median_s / other.median_s:.2f}", result["date"])


def _memory() -> Value | None:
    """The worst of all rows."""
    ratios = []
    for row in ROWS:
        result = read_result(f"speed_{row.key}")
        rates = speeds(result["measurements"]) if result is not None else {}
        for entry in row.entries:
            if result is not None and entry.side == OURS and {entry.key, REFERENCE_ENTRY.key} <= rates.keys():
                ratio = rates[entry.key].peak_rss_mb / rates[REFERENCE_ENTRY.key].peak_rss_mb
                ratios.append((ratio, facts_of(result, OURS)["date"]))
    return Value(f"{max(ratios)[0]:.2f} at most", max(date for _, date in ratios)) if ratios else None


def _stored(name: str, text: Callable[[dict[str, Any]], str]) -> Callable[[], Value | None]:
    """What one command keeps of its measurements."""

    def value() -> Value | None:
        result = read_result(name)
        return None if result is None else Value(text(result["measurements"]), result["date"])

    return value


def _promise(*names: str) -> Callable[[], Value | None]:
    """How many cases of these lines of the test plan passed, and when the oldest of them were run."""

    def value() -> Value | None:
        result = read_result("promises")
        lines = [] if result is None else [result["measurements"].get(name) for name in names]
        if not lines or None in lines:
            return None
        cases = f"{sum(line['passed'] for line in lines):,} cases of {', '.join(names)} passed"
        failed = [name for name, line in zip(names, lines, strict=True) if line["failed"]]
        worse = f", {' and '.join(failed)} FAILED" if failed else ""
        return Value(f"{cases}{worse}", min(line["date"] for line in lines))

    return value


def _algorithm_size() -> Value:
    sizes = {file.stem: len(file.read_text().splitlines()) for file in ALGORITHMS.glob("[!_]*.py")}
    longest = max(sizes, key=lambda name: sizes[name])
    return Value(f"{min(sizes.values())} to {sizes[longest]} ({longest})")


def _checkpoint_cost(measured: dict[str, Any]) -> str:
    return ", ".join(f"{algo} {100 * cost['share']:.2f} %" for algo, cost in measured["checkpoint"].items())


def _measuring(measured: dict[str, Any]) -> str:
    return ", ".join(f"{algo} {of['cost']:+.1%}" for algo, of in measured.items())


def _forecast(measured: dict[str, Any]) -> str:
    return ", ".join(f"{preset} {doctor.off(of):+.0%}" for preset, of in measured.items())


STORED: dict[str, Callable[[], Value | None]] = {
    "exact-resume kills passed": _kills,
    "kill points passed": _promise("R1"),
    "corruption detected": _promise("R4"),
    "seed reproducibility": _promise("R18"),
    "signal exit time": _promise("R15"),
    "bad input": _promise("R12"),
    "learning IQM": _learning,
    "seeds solved": _seeds_solved,
    "defaults": _defaults,
    "PPO throughput, native": _speed("ppo", "native"),
    "PPO throughput, Gymnasium": _speed("ppo", "sync"),
    "PPO throughput, wide": _speed("ppo_wide", "native"),
    "DQN throughput": _speed("dqn", "native"),
    "time to 475": _time_to_475,
    "peak memory": _memory,
    "checkpoint cost": _stored("speed_overhead", _checkpoint_cost),
    "sinks": _stored("sinks", lambda measured: f"{median(measured['ratios']):.3f}"),
    "measuring": _stored("measuring", _measuring),
    "forecast": _stored("forecast", _forecast),
    "help latency": _stored("speed_overhead", lambda measured: f"{measured['help_s']:.3f} s"),
    "list latency": _stored(
        "speed_overhead", lambda measured: f"{measured['ls_s']:.3f} s ({measured['ls_runs']} runs)"
    ),
    "algorithm size": _algorithm_size,
}
"""By the name of the KPI; the others are measured when their command is run."""


def rows() -> list[dict[str, str]]:
    listing = []
    for kpi in listed(PAGE.read_text(encoding="utf-8")):
        value = STORED[kpi.name]() if kpi.name in STORED else None
        measured = {"value": value.text, "date": value.date} if value is not None else {"value": "", "date": ""}
        listing.append({**kpi._asdict(), **measured})
    return listing


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kpi", description="Every KPI, its goal and its value.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    every = rows()
    if args.json:
        print(json.dumps(every, indent=1))
        return 0
    width = max(len(row["name"]) for row in every)
    section = ""
    for row in every:
        if row["section"] != section:
            section = row["section"]
            print(f"\n{section}")
        day = f"  ({row['date']})" if row["date"] else ""
        print(f"  {row['name']:<{width}}  {row['value'] + day if row['value'] else 'measure with: ' + row['command']}")
        print(f"  {'':<{width}}  goal: {row['goal']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
