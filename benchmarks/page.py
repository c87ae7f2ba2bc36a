"""Generated tables inside hand-written pages: text between two markers is replaced, the rest stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def replace_between(path: Path, name: str, text: str) -> None:
    """Put `text` between `<!-- name:begin -->` and `<!-- name:end -->`."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    page = path.read_text()
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"{path}: expected one {begin} before one {end}")
    before, rest = page.split(begin)
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{rest.split(end)[1]}")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers and stand to the right."""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
