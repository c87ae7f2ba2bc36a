"""The source of a module, read and not run: what it defines is known without importing it."""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Iterator, Sequence


def parsed(module: str) -> ast.Module:
    with tokenize.open(_source(module)) as stream:
        return ast.parse(stream.read())


def bound_names(node: ast.AST) -> Iterator[str]:
    """Names that a statement defines."""
    match node:
        case ast.ClassDef() | ast.FunctionDef():
            yield node.name
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.alias():
            yield node.asname or node.name.partition(".")[0]


def _source(module: str) -> str:
    """The source file of a module. `importlib.util.find_spec` would import its parents; this asks the finders."""
    search: Sequence[str] | None = None
    spec = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        specs = (finder.find_spec(name, search) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((candidate for candidate in specs if candidate), None)
        if spec is None:
            raise ValueError(f"no module {name}")
        search = spec.submodule_search_locations or ()
    if spec is None or not spec.origin or not spec.has_location:
        raise ValueError(f"no source file of {module}")
    return spec.origin
