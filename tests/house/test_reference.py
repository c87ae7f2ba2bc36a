"""The reference leaves nothing out: every public name has a docstring and a page, every setting has a line."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest

from rlstudio.orchestrator import __all__ as orchestrated
from support.pages import DOCS, ROOT

SOURCE = ROOT / "src/rlstudio"
NAMES = re.findall(r"^::: ([\w.]+)\.(\w+)$", (DOCS / "reference/api.md").read_text(), re.MULTILINE)
PAGES = "\n".join(page.read_text() for page in sorted(DOCS.rglob("*.md")))

WITHOUT_A_TABLE = {
    "PartConfig": "the base of every section that names a part",
    "ScorePartConfig": "the base of a score's settings; its `kind` is in docs/howto/planning.md",
    "SinkConfig": "the base of a sink's settings; its `kind` is in docs/howto/tracking.md",
    "LauncherConfig": "the base of a launcher's settings; options of `rlctl worker`",
}
"""Sections that are only extended: class -> why there is no table of its fields."""


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_every_public_name_has_a_docstring(module: str, name: str) -> None:
    thing = getattr(importlib.import_module(module), name)
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        assert name in written_below(module), f"{module}.{name} is assigned; a string below says what it is"
        return
    written = thing.__doc__ or ""
    assert written.strip(), f"{module}.{name}"
    assert not written.startswith(f"{name}("), "made by NamedTuple or dataclass; write one"


@cache
def written_below(module: str) -> set[str]:
    """Names that a module, or one below it, assigns with a string in the next line, as the site reads it."""
    place = SOURCE.parent.joinpath(*module.split("."))
    found = set()
    for path in [*place.rglob("*.py"), place.with_suffix(".py")]:
        body = ast.parse(path.read_text()).body if path.is_file() else []
        for part, following in pairwise(body):
            if isinstance(part, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                found |= {ast.unparse(target) for target in targets}
    return found


def test_every_public_name_is_on_the_page() -> None:
    page = (DOCS / "reference/python.md").read_text()
    rows = re.findall(r"^\| `(rlstudio[\w.]+)` \| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
    promised = {(module, name) for module, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert promised <= set(NAMES)
    assert len(NAMES) > 100
    missing = [name for name in orchestrated if not re.search(rf"`(?:run\.)?{name}\b", page)]
    assert missing == []


@cache
def sections() -> dict[str, tuple[str, list[str]]]:
    """Every class below `Config` that has fields of its own: name -> module and fields."""
    classes: dict[str, tuple[str, ast.ClassDef]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if re.search(r"^class \w+\(.*Config", text, re.MULTILINE) and "testing" not in path.parts:
            module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
            classes |= {node.name: (module, node) for node in ast.parse(text).body if is_class(node)}

    def below_config(name: str) -> bool:
        bases = [ast.unparse(base).rpartition(".")[2] for base in classes[name][1].bases] if name in classes else []
        return "Config" in bases or any(base in classes and below_config(base) for base in bases if base != name)

    found = {name: (module, list(fields(node))) for name, (module, node) in classes.items() if below_config(name)}
    return {name: entry for name, entry in found.items() if entry[1] and not name.startswith("_")}


def is_class(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef)


def fields(node: ast.ClassDef) -> Iterator[str]:
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part.annotation):
            yield ast.unparse(part.target)


def test_every_setting_has_a_line() -> None:
    assert len(sections()) > 35
    marked = set(re.findall(r"<!-- fields ([\w.]+):(\w+) -->", PAGES))
    missing = [name for name, (module, _) in sections().items() if (module, name) not in marked]
    assert sorted(missing) == sorted(WITHOUT_A_TABLE)


def test_no_line_is_without_a_meaning() -> None:
    tables = re.findall(r"<!-- fields \S+ -->\n(.*?)<!-- /fields -->", PAGES, re.DOTALL)
    rows = [row for table in tables for row in re.findall(r"^\| `.+$", table, re.MULTILINE)]
    assert len(rows) > 200
    assert [row for row in rows if row.rstrip(" |").endswith("|") or not row.split(" | ")[-1].strip(" |")] == []
