"""What an experiment that came over HTTP may not hold, though a file of the user may: addresses, paths of this machine,
code that was not allowed when the server was started.

A client names things: presets, runs, models, environments of the catalog. It never names a place, so no request makes
this machine read a file or call an address of the client's choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rlstudio.core.errors import ConfigError, suggest
from rlstudio.core.parsing.problems import dotted, value_text
from rlstudio.core.parsing.yaml_file import Document, KeyPath

ADDRESS = re.compile(r"[A-Za-z0-9+.-]:/")
"""The end of a scheme: looking for where it begins would take a quadratic time over a long text."""

PATHLIKE = re.compile(r"(?:^|[/\\])\.{1,2}(?:[/\\]|$)|^[/\\~]|^[A-Za-z]:\\|\0")
SLASHED = (("env", "kwargs"), ("env", "wrappers"), ("tracking",))
"""Sections whose values reach files of others: there any path is refused, also a relative one."""


def refuse_places(document: Document, imports: Sequence[str]) -> None:
    """ConfigError with a line for each value that names a place. `imports`: modules whose environments are allowed."""
    problems = [
        f"{document.where(path)}: {dotted(path)}: {reason}" for path, reason in _places(document.data, (), imports)
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def _places(value: object, path: KeyPath, imports: Sequence[str]) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _places(inner, (*path, str(name)), imports)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _places(inner, (*path, place), imports)
    elif isinstance(value, str) and (reason := _refused(value, path, imports)):
        yield path, reason


def _refused(value: str, path: KeyPath, imports: Sequence[str]) -> str:
    if path == ("env", "id"):
        module, colon, _ = value.partition(":")
        if colon and module not in imports:
            return f"module {value_text(module)} was not allowed when the server was started; start it with --import"
        return ""
    if variable := _named_address(value, path):
        return f"an address is not taken over HTTP; set {variable} where the server is started"
    if ADDRESS.search(value):
        return f"an address is not taken over HTTP, got {value_text(value)}"
    if PATHLIKE.search(value) or (_is_below(path, SLASHED) and re.search(r"[/\\]", value)):
        return f"a path of this machine is not taken over HTTP, got {value_text(value)}"
    return ""


def _named_address(value: str, path: KeyPath) -> str:
    """Whatever stands there, also HOST:PORT or a word that a client resolves: the variable that is there for it."""
    if path == ("resources", "address") and value != "auto":
        return "RAY_ADDRESS"
    return "MLFLOW_TRACKING_URI" if value and path[:1] == ("tracking",) and path[-1] == "uri" else ""


def _is_below(path: KeyPath, sections: Sequence[tuple[str, ...]]) -> bool:
    return any(path[: len(section)] == section for section in sections)


def refuse_unknown_env(env_id: str, known: Sequence[str]) -> None:
    """An id must be one of the catalog. Gymnasium would look for others in modules that it imports."""
    if ":" not in env_id and env_id not in known:
        near = suggest(env_id, known) or "; GET /api/v1/catalog lists them"
        raise ConfigError(f"experiment: env.id: {value_text(env_id)} is not in the catalog{near}")
