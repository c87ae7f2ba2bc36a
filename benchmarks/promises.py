"""The tests of a line of docs/reliability.md, with what they counted: `python -m benchmarks.promises [R4 S2 ...]`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.page import table
from benchmarks.venvs import ROOT

PAGE = ROOT / "docs" / "reliability.md"
_ROW = re.compile(r"^\| ([RS]\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/.:]+)`")
_COUNTS = re.compile(r"^.*\b\d+ (?:of|states|points|cases|packages|kills|requests)\b.*$", re.MULTILINE)
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
    return done.returncode, int(passed[1]) if passed else 0, [line.strip(". ") for line in _COUNTS.findall(done.stdout)]


def main(names: list[str]) -> int:
    chosen = [one for one in promises() if one.tests and (not names or one.name in names)]
    print(table(["", "promise", "cases", "counted"], []))
    failed = 0
    for one in chosen:
        code, passed, counted = run(one.tests)
        failed += bool(code)
        said = "; ".join(line for line in counted if "passed" not in line)
        print(f"| {one.name} | {one.promise} | {passed if not code else f'{passed}, FAILED'} | {said} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
