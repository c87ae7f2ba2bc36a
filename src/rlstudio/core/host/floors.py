"""Version floors, asserted where a library is first used: what pip resolved once may have been replaced since.

The floors are those of our own metadata, so they stand in one file (`pyproject.toml`). What is linked, not installed,
has its floor here.
"""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from rlstudio.core.errors import Incompatible
from rlstudio.core.host.installation import pip_line, requirements

SQLITE = (3, 35, 0)
"""RETURNING, which SQLAlchemy uses. The store keeps a rollback journal: the WAL of 3.7.0 to 3.51.2 can lose pages."""

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@lru_cache
def require_floors(extra: str = "") -> None:
    """Of what an extra of ours brings, or of what always comes along; a package that is not there is not looked at.
    Incompatible names the first that is older than its floor."""
    for requirement in requirements(extra):
        floor = next((bound[2:] for bound in requirement.ranges if bound.startswith(">=")), None)
        try:
            there = version(requirement.package)
        except PackageNotFoundError:
            continue
        if floor is not None and _numbers(there) < _numbers(floor):
            raise Incompatible(
                f"{requirement.package} {there}: older than {floor}, the oldest that RLStudio is safe with;"
                f" {pip_line([requirement])}"
            )


def require_sqlite() -> None:
    """Of the library that Python is linked to, which no package says."""
    if sqlite3.sqlite_version_info < SQLITE:
        floor = ".".join(map(str, SQLITE))
        raise Incompatible(
            f"SQLite {sqlite3.sqlite_version}: older than {floor}, which the store needs; use a Python that is"
            " linked to a newer one"
        )


def _numbers(text: str) -> tuple[int, ...]:
    """As far as they decide: 2.10.0+cpu is 2.10.0."""
    match = _NUMBERS.match(text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
