"""Measured tables on the pages are what the stored results say: rendered again, every digit is the same.

Not here: `docs/algorithms/mbmpc.md`, whose stored seeds are of earlier configurations, until `python -m
benchmarks.model_based` trains them anew; and the curricula's, which nobody has trained yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from benchmarks.records import read_result
from benchmarks.summary import solves, speeds

from support.pages import ROOT


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


def stored(name: str) -> Any:
    return module(name).read_store(module(name).STORE)


def result(name: str) -> Any:
    found = read_result(name)
    assert found is not None
    return found


def put(name: str, text: str) -> None:
    module(name).replace_between(module(name).PAGE, name, text)


def control() -> None:
    found = result("control")
    put("control", module("control").page(found["runs"], found["seconds"], found["commands"]))


def kills() -> None:
    put("kills", module("kills").report(module("kills").lines_of(module("kills").CASES, 0, stored("kills"))))


def learning() -> None:
    of_learning = module("learning")
    lines = of_learning.read_store()
    module("learning_page").write(of_learning.current_lines(lines, 10), of_learning.held_out_lines(lines))


CASES: dict[str, Callable[[], object]] = {
    **{
        name: partial(lambda name: module(name).write_page(stored(name)), name)
        for name in ("games", "ipd", "randomised")
    },
    **{
        name: partial(lambda name: put(name, module(name).page(result(name))), name)
        for name in ("diffusion", "multi_agent_peers", "sweeps")
    },
    "control": control,
    "defaults_page": lambda: module("defaults_page").write(module("defaults").current_lines(stored("defaults"))),
    "guardrails": lambda: module("guardrails").main(["--report"]),
    "kills": kills,
    "learning_page": learning,
    "multi_agent": lambda: put("multi_agent", module("multi_agent").page(stored("multi_agent"))),
    "planning_gpu": lambda: put("planning_gpu", module("planning_gpu").page(result("planning_gpu"))),
    "planning_page": lambda: module("planning_page").write(),
    "render": lambda: module("render").write_page(),
    "serving": lambda: put("serving", module("serving").page(result("serving")["ms"])),
    "update_cost": lambda: put("update_cost", module("update_cost").page(read_result("update_cost"))),
    "throughput": lambda: put("throughput", module("throughput").report(stored("throughput"))),
    "zoo": lambda: module("zoo").render(module("zoo").read_index()),
}
"""The module that writes a table -> how it is made from what is stored."""


def test_every_measured_table_is_compared() -> None:
    """But the two that the first lines of this file name."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    marked = {block for page in pages for block in re.findall(r"<!-- ([\w-]+):begin -->", page.read_text())}
    pages_of = {"render": "speed", "planning_page": "planning", "learning_page": "learning", "games": "tictactoe"}
    compared = {pages_of.get(name, name.removesuffix("_page")) for name in CASES} | {"connect-four"}
    assert marked - compared == {"model_based", "curriculum"}


@pytest.mark.parametrize("name", CASES)
def test_a_measured_table_is_that_of_the_stored_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(path: Path, block: str, text: str) -> None:
        page = path.read_text()
        begin, end = f"<!-- {block}:begin -->", f"<!-- {block}:end -->"
        compared.append(block)
        assert page.partition(begin)[2].partition(end)[0].strip() == text.strip(), f"{path}: {block}"

    monkeypatch.setattr(f"benchmarks.{name}.replace_between", compare)
    CASES[name]()
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
