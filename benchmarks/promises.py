"""The tests of a line of docs/reliability.md, with what they counted: `python -m benchmarks.promises [R4 S2 ...]`.

`--store` keeps the numbers for `make kpi`; those of lines that were not run stay, each with its day.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.page import table
from benchmarks.records import provenance, read_result, write_result
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours

PAGE = ROOT / "docs" / "reliability.md"
_ROW = re.compile(r"^\| ([RS]\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/.:]+)`")
_COUNTS = re.compile(r"^.*\b\d+ (?:of|states|points|cases|packages|kills|requests)\b.*$", re.MULTILINE)
_PROGRESS = re.compile(r"^tests/\S+\.py ")
_PASSED = re.compile(r"(\d+) passed")


class Promise(NamedTuple):
    name: str
    promise: str
    tests: list[str]


def promises() -> list[Promise]:
    return [Promise(name, promise, _TEST.findall(tests)) for name, promise, tests in _ROW.findall(PAGE.read_text())]


def run(tests: Iterable[str]) -> tuple[int, int, list[str]]:
    """Exit code, cases that passed, and lines with what they counted."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-s", "-m", "not slow and not gpu", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    passed = _PASSED.search(done.stdout)
    return (
        done.returncode,
        int(passed[1]) if passed else 0,
        [_PROGRESS.sub("", line).strip(". ") for line in _COUNTS.findall(done.stdout)],
    )


def keep(name: str, code: int, passed: int, counted: Sequence[str] = ()) -> None:
    made = provenance({OURS: ours().versions})
    measured = {} if (stored := read_result("promises")) is None else stored["measurements"]
    measured[name] = {"passed": passed, "failed": bool(code), "date": made["date"], "commit": made["commit"]}
    measured[name] |= {"counted": [*counted]} if counted else {}
    write_result("promises", {**made, "measurements": measured})


def main(argv: Sequence[str] | None = None) -> int:
    listed = promises()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises", description="The test plan, line by line.")
    parser.add_argument("names", nargs="*", metavar="LINE", help="R1 to R24, S1 to S24; all of them without any")
    parser.add_argument("--store", action="store_true", help="keep the numbers in benchmarks/results/promises.json")
    args = parser.parse_args(argv)
    if unknown := set(args.names) - {one.name for one in listed}:
        parser.error(f"no line {', '.join(sorted(unknown))} in {PAGE.relative_to(ROOT)}")
    chosen = [one for one in listed if one.tests and (not args.names or one.name in args.names)]
    print(table(["", "promise", "cases", "counted"], []))
    failed = 0
    for one in chosen:
        code, passed, counted = run(one.tests)
        failed += bool(code)
        counted = [line for line in counted if "passed" not in line]
        if args.store:
            keep(one.name, code, passed, counted)
        what = f"{passed}, FAILED" if code else passed
        print(f"| {one.name} | {one.promise} | {what} | {'; '.join(counted)} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
