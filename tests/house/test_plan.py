"""The test plan names tests that exist, for every promise of it."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.promises import promises

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"R14", "R20"}
"""Half an hour of its own, and the sum of the others."""


def test_every_promise_has_tests_and_they_exist() -> None:
    listed = promises()
    assert [one.name for one in listed] == [*(f"R{n}" for n in range(1, 25)), *(f"S{n}" for n in range(1, 25))]
    assert {one.name for one in listed if not one.tests} == ELSEWHERE
    named = [test for one in listed for test in one.tests]
    for test in named:
        path, _, function = test.partition("::")
        assert (ROOT / path).exists(), path
        assert not function or re.search(rf"^def {function}\(", (ROOT / path).read_text(), re.MULTILINE), test
    print(f"{len({*named})} tests and files of {len(listed)} promises")
