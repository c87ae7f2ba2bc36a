"""Which module of a source tree imports which, read from the syntax trees: nothing is imported to find out.

Left out is what importing a module never executes: imports under `if TYPE_CHECKING`, and those under
`if __name__ == "__main__"`, which run only where the file is the program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

NEVER_IMPORTED = ("TYPE_CHECKING", "__name__ == '__main__'")


@dataclass(frozen=True)
class Module:
    """One file of the tree, by its dotted name."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


def modules_below(source: Path) -> dict[str, Module]:
    """Every Python file below the folder, by dotted name; a package is its `__init__.py`."""
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path)
    return modules


def import_graph(modules: Mapping[str, Module], lazy: bool) -> dict[str, set[str]]:
    """Module to the modules of the tree it imports; `lazy` also counts imports inside functions."""
    return {name: set(_imported(module, modules, lazy)) - {name} for name, module in modules.items()}


def closure(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """The module and everything it imports, directly or not."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(graph[name])
    return reached


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or not, each sorted."""
    reachable = {name: closure(graph, name) for name in graph}
    groups = {tuple(sorted(other for other in reachable[name] if name in reachable[other])) for name in graph}
    return sorted(list(group) for group in groups if len(group) > 1)


def _imported(module: Module, modules: Mapping[str, Module], lazy: bool) -> Iterator[str]:
    is_package = module.path.name == "__init__.py"
    for statement in _imports(module.tree.body, lazy):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names if alias.name in modules)
            continue
        source = statement.module or ""
        if statement.level:
            package = module.name.split(".")
            package = package[: len(package) - statement.level + is_package]
            source = ".".join([*package, *([source] if source else [])])
        for alias in statement.names:
            # `from a.b import c` names the module a.b.c where there is one, otherwise something in a.b.
            target = f"{source}.{alias.name}"
            if target in modules or source in modules:
                yield target if target in modules else source


def _imports(statements: Iterable[ast.AST], lazy: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in statements:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not lazy:
            continue
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) in NEVER_IMPORTED):
            yield from _imports(ast.iter_child_nodes(node), lazy)
