"""Measured tables on the pages are what the stored results say: rendered again, every digit is the same.

Not here: `docs/algorithms/mbmpc.md`, whose stored seeds are of earlier configurations, until `python -m
benchmarks.model_based` trains them anew; and tables whose command only measures.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

STORES = ("games", "ipd", "randomised")
RESULTS = ("diffusion", "sweeps")


def of_store(name: str) -> Callable[[], object]:
    module = import_module(f"benchmarks.{name}")
    return lambda: module.write_page(module.read_store(module.STORE))


def of_result(name: str) -> Callable[[], object]:
    module = import_module(f"benchmarks.{name}")
    return lambda: module.replace_between(module.PAGE, name, module.page(module.read_result(name)))


def with_its_own(name: str) -> Callable[[], object]:
    learning, defaults, zoo = (import_module(f"benchmarks.{part}") for part in ("learning", "defaults", "zoo"))
    control = import_module("benchmarks.control")

    def of_control() -> None:
        stored = control.read_result("control")
        text = control.page(stored["runs"], stored["seconds"], stored["commands"])
        control.replace_between(control.PAGE, "control", text)

    return {
        "render": lambda: import_module("benchmarks.render").write_page(),
        "planning_page": lambda: import_module("benchmarks.planning_page").write(),
        "learning_page": lambda: learning.learning_page.write(learning.current_lines(learning.read_store(), 10)),
        "defaults_page": lambda: defaults.defaults_page.write(
            defaults.current_lines(defaults.read_store(defaults.STORE))
        ),
        "zoo": lambda: zoo.render(zoo.read_index()),
        "control": of_control,
    }[name]


CASES = {
    **{name: of_store for name in STORES},
    **{name: of_result for name in RESULTS},
    **{name: with_its_own for name in ("render", "planning_page", "learning_page", "defaults_page", "zoo", "control")},
}


@pytest.mark.parametrize("name", CASES)
def test_a_measured_table_is_that_of_the_stored_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(path: Path, block: str, text: str) -> None:
        page = path.read_text()
        begin, end = f"<!-- {block}:begin -->", f"<!-- {block}:end -->"
        compared.append(block)
        assert page.partition(begin)[2].partition(end)[0].strip() == text.strip(), f"{path}: {block}"

    make: Any = CASES[name](name)
    monkeypatch.setattr(f"benchmarks.{name}.replace_between", compare)
    make()
    assert compared
