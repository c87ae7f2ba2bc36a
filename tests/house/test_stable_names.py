"""What the examples of plug-ins import is what the page on Python promises to keep."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/python.md").read_text()
EXAMPLES = [ROOT / "examples/reinforce.py", *sorted((ROOT / "examples/my_parts").rglob("*.py"))]
ROWS = dict(re.findall(r"^\| `(rlstudio[\w.]+)` \| (.+?) \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_import_of_a_plug_in_is_promised(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rlstudio"):
            promised = re.findall(r"`(\w+)`", ROWS.get(str(node.module), ""))
            assert [name.name for name in node.names if name.name not in promised] == [], node.module


@pytest.mark.parametrize("module", sorted(name for name in ROWS if name != "rlstudio.orchestrator"))
def test_every_promised_name_is_there(module: str) -> None:
    there = importlib.import_module(module)
    assert [name for name in re.findall(r"`(\w+)`", ROWS[module]) if not hasattr(there, name)] == []
