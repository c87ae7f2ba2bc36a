"""A hook of mkdocs: what pages link to beside docs/ becomes part of the site, so that every link leads somewhere.

A page (CONTRIBUTING.md) becomes a page below `repository/`, any other file (a script of the examples) is copied. So
the pages read the same on the site and in the repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PLACE = "repository"
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Every file outside that a page names, and every one that such a page names."""
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()]
    known: set[Path] = set()
    while waiting:
        for target in outside(waiting.pop()):
            if target not in known:
                known.add(target)
                files.append(_copied(target, config))
                if target.suffix == ".md":
                    waiting.append(target)
    return files


def _copied(target: Path, config: Any) -> File:
    """Where it is in no menu, a link leads to it."""
    return File.generated(config, _on_site(target), abs_src_path=str(target), inclusion=InclusionLevel.NOT_IN_NAV)


def outside(page: Path) -> Iterator[Path]:
    for link in LINK.findall(CODE.sub("", page.read_text())):
        target = (page.parent / link).resolve()
        if target.is_file() and DOCS not in target.parents:
            yield target


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they stand in the repository, to where the site has these files."""
    lies = _in_repository(page.file.src_uri)

    def on_site(match: re.Match[str]) -> str:
        target = (lies.parent / match[1]).resolve()
        if not target.is_file() or (DOCS in lies.parents and DOCS in target.parents):
            return match[1]  # one that leads nowhere is left to mkdocs, which warns
        return os.path.relpath(_on_site(target), os.path.dirname(page.file.src_uri) or ".")

    return LINK.sub(on_site, markdown)


def _in_repository(uri: str) -> Path:
    inside = uri.removeprefix(f"{PLACE}/")
    return (ROOT if inside != uri else DOCS) / inside


def _on_site(target: Path) -> str:
    if DOCS in target.parents:
        return target.relative_to(DOCS).as_posix()
    return f"{PLACE}/{target.relative_to(ROOT).as_posix()}"
