"""The map of the house is true: every file and name that the pages lead to is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/rlstudio"
WALKS = ROOT / "docs/walks.md"
ROW = re.compile(r"^\| `([\w/]+\.py)` \| (.+?) \| .+ \|$", re.MULTILINE)
FILE = re.compile(r"`((?:src/rlstudio/|tests/|docs/|examples/|benchmarks/)?[\w/]+/[\w]+\.(?:py|md|yaml))`")
LAYOUTS = ROOT / "docs/decisions/0002-layout-names.md"  # names that were proposed and not taken
PAGES = sorted({ROOT / "CONTRIBUTING.md", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {LAYOUTS})

READERS_OWN = ("my_", "runs/", "bundles/")
"""Files that a page has its reader make."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def names(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Functions, classes and assigned names."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


STEPS = [(file, name) for file, cell in ROW.findall(WALKS.read_text()) for name in re.findall(r"`([\w.]+)`", cell)]


@pytest.mark.parametrize(("file", "name"), STEPS, ids=[f"{file}-{name}" for file, name in STEPS])
def test_every_step_of_a_walk_is_there(file: str, name: str) -> None:
    body = tree(SOURCE / file).body
    for word in name.split("."):
        known = names(body)
        assert word in known, f"{file} has no {name}"
        node = known[word]
        body = node.body if isinstance(node, ast.ClassDef) else []


def test_every_row_of_a_walk_is_checked() -> None:
    rows = [line for line in WALKS.read_text().splitlines() if line.startswith("| `")]
    assert len(rows) == len(ROW.findall(WALKS.read_text())) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_on_the_map_is_there(page: Path) -> None:
    named = [file for file in FILE.findall(page.read_text()) if not file.startswith(READERS_OWN)]
    assert [file for file in named if not (SOURCE / file).exists() and not (ROOT / file).exists()] == []
