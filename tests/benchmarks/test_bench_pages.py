"""Measured tables on the pages are what the stored results say: rendered again, every digit is the same.

Not here: `docs/algorithms/mbmpc.md`, whose stored seeds are of earlier configurations, until `python -m
benchmarks.model_based` trains them anew; and tables whose command only measures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from benchmarks.records import read_result
from benchmarks.summary import solves, speeds

from support.pages import ROOT

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


CLAIMS = {
    r"PPO on CartPole ([\d.]+)x its steps": ("ppo", "native"),
    r"\(([\d.]+)x on plain Gymnasium": ("ppo", "sync"),
    r"continuous PPO ([\d.]+)x": ("ppo_pendulum", "native"),
    r"A2C ([\d.]+)x": ("a2c", "native"),
    r" DQN ([\d.]+)x": ("dqn", "native"),
    r"QR-DQN ([\d.]+)x": ("qrdqn", "native"),
    r"SAC ([\d.]+)x": ("sac", "native"),
    r"TD3 ([\d.]+)x": ("td3", "native"),
}
"""A sentence of README.md -> the stored row and our way to step environments that it is about."""


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_ratio_of_the_readme_is_that_of_the_stored_results(claim: str) -> None:
    row, way = CLAIMS[claim]
    stored = read_result(f"speed_{row}")
    assert stored is not None
    measured = speeds(stored["measurements"])
    theirs = max(speed.best for entry, speed in measured.items() if entry.startswith("sb3/"))
    assert_stands(claim, measured[f"rlstudio/{way}"].best / theirs)


def test_the_time_to_475_of_the_readme_is_that_of_the_stored_results() -> None:
    stored = read_result("speed_solve")
    assert stored is not None
    measured = solves(stored["measurements"])
    assert_stands(r"475 reached in ([\d.]+)x", measured["rlstudio/native"].median_s / measured["sb3/sync"].median_s)


def assert_stands(claim: str, value: float) -> None:
    """The number on the page, in the digits that it has there."""
    text = " ".join((ROOT / "README.md").read_text().split())
    (number,) = re.findall(claim, text)
    assert number == f"{value:.{len(number.partition('.')[2])}f}"
