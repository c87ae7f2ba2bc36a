"""`plugins`: parts that other packages add."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Json
from rlstudio.cli.screen.terminal import Cell, stdout
from rlstudio.core.errors import UserError

if TYPE_CHECKING:
    from rlstudio.core.catalog import Catalog, Part

NONE = (
    "no package adds a part; one does with an entry point in its pyproject.toml, such as"
    ' [project.entry-points."rlstudio.planners"] my_planner = "my_package:MyPlanner" (docs/howto/plug-ins.md)'
)


def plugins(
    check: Annotated[bool, typer.Option("--check", help="Import each part, and fail if one cannot be used.")] = False,
    json: Json = False,
) -> None:
    """List the parts that other packages add: algorithms, planners, sinks, ..."""
    rows = [*_rows(check)]
    out = stdout()
    if json:
        out.document(rows)
    elif rows:
        head = ["kind", "name", "package", "version", "summary"]
        out.table(head, [[*(row[name] for name in head[:-1]), _summary(row)] for row in rows])
    else:
        out.line(NONE)
    broken = [row for row in rows if row["problem"]]
    if check and broken:
        raise UserError(f"{len(broken)} of {len(rows)} plug-ins cannot be used; repair or uninstall their packages")


def _summary(row: dict[str, str]) -> Cell:
    return Cell(row["problem"], "red") if row["problem"] else Cell(row["summary"])


def _rows(check: bool) -> Iterator[dict[str, str]]:
    from rlstudio.core.catalog import catalogs, misplaced

    for catalog in catalogs():
        for name, parts in sorted(catalog.plugins.items()):
            problem = catalog.problem(name) or (_failure(catalog, name) if check else "")
            for part in parts:
                summary = "" if problem else catalog.summary_of(part)
                yield _row(catalog.kind, name, part, summary=summary, problem=problem)
    known = ", ".join(catalog.group for catalog in catalogs())
    for group, entries in misplaced().items():
        for name, part in entries:
            yield _row("", name, part, problem=f"{group}: there is no such group of entry points; there are {known}")


def _row(kind: str, name: str, part: Part, *, summary: str = "", problem: str = "") -> dict[str, str]:
    return {
        "kind": kind,
        "name": name,
        "package": part.package,
        "version": part.version,
        "target": part.target,
        "summary": summary,
        "problem": problem,
    }


def _failure(catalog: Catalog, name: str) -> str:
    """Why it cannot be loaded; empty if it can."""
    try:
        catalog.load(name)
    except UserError as error:
        return str(error)
    return ""
