"""What the examples of plug-ins import is what the page on Python promises to keep."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from rlstudio.core import contracts

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


def test_every_contract_of_a_part_is_promised() -> None:
    """With all that its methods take and return. A lease is between a run and the store: no part has one."""
    assert set(re.findall(r"`(\w+)`", ROWS["rlstudio.core.contracts"])) == {*contracts.__all__} - {"Lease"}


@pytest.mark.parametrize("name", ["core/model/layers.py", "core/model/policies.py", "models/plain.py"])
def test_what_a_model_speaks_in_is_promised(name: str) -> None:
    """Every public class and function of the modules that a Model of another package is written with."""
    promised = re.findall(r"`(\w+)`", ROWS["rlstudio." + name.removesuffix(".py").replace("/", ".")])
    tree = ast.parse((ROOT / "src/rlstudio" / name).read_text())
    defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert [name for name in defined if not name.startswith("_") and name not in promised] == []


@pytest.mark.parametrize("module", sorted(name for name in ROWS if name != "rlstudio.orchestrator"))
def test_every_promised_name_is_there(module: str) -> None:
    there = importlib.import_module(module)
    assert [name for name in re.findall(r"`(\w+)`", ROWS[module]) if not hasattr(there, name)] == []
