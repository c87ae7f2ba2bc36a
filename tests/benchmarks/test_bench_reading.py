"""The list of what a reader of PPO must read: it fits the tree, and the counting is right on a tree made by hand."""

from pathlib import Path

import pytest
from benchmarks.import_graph import closure, cycles, import_graph, modules_below
from benchmarks.reading import PACKAGE, READING, SOURCE, START, Part, StaleList, needed_lines, reading, report

from benchmarks import reading as tool

ONE = '''"""Two
lines."""
from rlstudio.two import a


class C:
    @property
    def m(self):
        return 1
'''
TREE = {
    "__init__.py": "",
    "one.py": ONE,
    "two.py": "def a():\n    from rlstudio import three\n\n    return three\n",
    "three.py": "from . import one\n\n\nif __name__ == '__main__':\n    from rlstudio import four\n",
    "four.py": "import rlstudio.one\nif TYPE_CHECKING:\n    import rlstudio.two\n",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name, text in TREE.items():
        path = tmp_path / PACKAGE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(tool, "SOURCE", tmp_path)
    return modules_below(tmp_path)


@pytest.fixture(scope="module")
def modules():
    """Of this tree."""
    return modules_below(SOURCE)


def test_the_list_fits_this_tree(modules):
    lines = reading(modules)
    assert set(lines) == set(READING)
    assert all(needed_lines(part, modules) > 0 for parts in READING.values() for part in parts)
    text = report(modules, folders=3)
    assert all(f"**{count:,}**" in text for count in lines.values())


def test_every_listed_module_is_imported_by_ppo_or_runs_it(modules):
    graph = import_graph(modules, lazy=False)
    imported = closure(graph, f"{PACKAGE}.{START}") | closure(graph, f"{PACKAGE}.experiment.training.build")
    listed = {f"{PACKAGE}.{part.module}" for parts in READING.values() for part in parts}
    outside = {name for name in listed - imported if name.split(".")[1] != "experiment"}
    assert not outside, "not part of what PPO imports, and not what runs it"


def test_counts_the_docstring_and_the_named_definitions_with_decorators(tree):
    assert needed_lines(Part("one"), tree) == 9
    assert needed_lines(Part("one", ("C",)), tree) == 2 + 4
    assert needed_lines(Part("one", ("C.m",)), tree) == 2 + 3
    assert needed_lines(Part("two", ("a",)), tree) == 4  # no docstring


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        (Part("five"), "rlstudio.five: no such module"),
        (Part("one", ("D",)), "rlstudio.one: no definition D"),
        (Part("one", ("C.n",)), "rlstudio.one: no definition C.n"),
    ],
)
def test_what_is_gone_is_named(tree, part, missing):
    with pytest.raises(StaleList, match=missing):
        needed_lines(part, tree)


def test_imports_inside_functions_close_a_cycle_only_when_counted(tree):
    assert cycles(import_graph(tree, lazy=False)) == []
    assert cycles(import_graph(tree, lazy=True)) == [["rlstudio.one", "rlstudio.three", "rlstudio.two"]]


def test_main_lines_and_imports_for_type_checkers_are_left_out(tree):
    graph = import_graph(tree, lazy=True)
    assert graph["rlstudio.three"] == {"rlstudio.one"}
    assert graph["rlstudio.four"] == {"rlstudio.one"}


def test_promises_are_judged_by_their_limits(tree, monkeypatch):
    assert [kept for _, _, kept in tool.promises(tree)] == [True, True, False]
    monkeypatch.setattr(tool, "MOST_FILES", 3)
    monkeypatch.setattr(tool, "MOST_LINES", 8)
    folder, file, _ = tool.promises(tree)
    assert folder[1:] == ("rlstudio 4", False)
    assert file[1:] == (f"{Path(PACKAGE) / 'one.py'} 9", False)
