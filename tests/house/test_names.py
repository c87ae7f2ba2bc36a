"""Names say what a thing is: no filler words, one meaning for a class name, no module for what fits nowhere else."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/rlstudio"
MODULES = sorted(SOURCE.rglob("*.py"))

FILLER = {
    *("told", "seen", "shown", "found", "judged", "hands", "heart", "hearts", "stranger", "strangers"),
    *("family", "voice", "manner", "births"),
}
FOREIGN = {
    "found_inf": "torch's fused optimizers take it by this name",
}
"""Names that another library gives: name -> who needs it so."""

TWICE = {
    "Agent": "the Protocol of core/contracts, and the class of agents/agent.py",
    "ReplayBuffer": "the Protocol of core/contracts, and the class of data/replay/buffer.py",
    "Trainer": "the Protocol of core/contracts, and the class of algos/parts/trainer.py",
}
"""Public class names that stand in two files: name -> which."""

VAGUE_MODULES = {"util", "utils", "common", "helper", "helpers", "manager", "base", "misc"}
IDENTIFIERS = ("id", "name", "arg", "attr", "asname", "module", "rest")
"""Fields of the nodes of `ast` in which an identifier stands."""


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


@cache
def words(identifier: str) -> set[str]:
    """`RunNotFound` is what the thing is: not found."""
    plain = re.sub(r"not_?found", "", identifier, flags=re.IGNORECASE)
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", plain)}


@cache
def identifying(kind: type[ast.AST]) -> list[str]:
    return [field for field in IDENTIFIERS if field in kind._fields]


def identifiers(parsed: ast.Module) -> Iterator[tuple[str, int]]:
    """Every identifier that is defined, imported or used, and its line."""
    line = 1
    for node in ast.walk(parsed):
        line = getattr(node, "lineno", line)
        names = [getattr(node, field) for field in identifying(type(node))]
        if isinstance(node, ast.Global | ast.Nonlocal):
            names = [*node.names]
        for name in names:
            if isinstance(name, str):
                yield name, line


def filler_names(parsed: ast.Module) -> list[tuple[str, int]]:
    return [(name, line) for name, line in identifiers(parsed) if words(name) & FILLER]


def test_no_name_is_a_filler_word_and_every_foreign_name_is_still_used() -> None:
    fillers, used = [], set()
    for module in MODULES:
        for name, line in filler_names(tree(module)):
            used.add(name)
            if name not in FOREIGN:
                fillers.append(f"{module.relative_to(SOURCE).as_posix()}:{line}: {name}")
    assert fillers == [], "name the thing instead: payload, matches, reported_keys, heartbeat, ..."
    assert set(FOREIGN) - used == set()


@pytest.mark.parametrize(
    "text",
    [
        "told = 1",
        "a.is_told",
        "def f(seen): ...",
        "def as_shown(): ...",
        "f(found=1)",
        "class MaskShown: ...",
        "BIRTHS: int = 10",
        "import family",
        "from house.family import run",
        "import house as manner",
        "try: ...\nexcept OSError as judged: ...",
        "match a:\n    case {'b': 1, **strangers}: ...",
        "f'{voice}'",
        "_HANDS2 = 1",
    ],
)
def test_a_filler_word_is_noticed(text: str) -> None:
    assert filler_names(ast.parse(text))


@pytest.mark.parametrize("text", ["class RunNotFound: ...", "is_not_found = 1", "foundation = '...told'", "unseen()"])
def test_other_words_are_not(text: str) -> None:
    assert filler_names(ast.parse(text)) == []


def test_a_public_class_name_stands_once() -> None:
    places = defaultdict(list)
    for module in MODULES:
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.relative_to(SOURCE).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1 and name not in TWICE} == {}
    assert [name for name in TWICE if len(places[name]) != 2] == []


def test_a_module_is_called_after_what_it_holds() -> None:
    stems = {
        module.relative_to(SOURCE).as_posix(): {*module.relative_to(SOURCE).with_suffix("").parts} for module in MODULES
    }
    assert [path for path, parts in stems.items() if parts & VAGUE_MODULES] == []
