"""`make docs`: the site is built without a warning, and every link on it leads to a page and a heading."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from support.deadlines import PATIENCE
from support.pages import DOCS, ROOT

HREF = re.compile(r'<a\b[^>]* href="([^"]+)"')
ANCHOR = re.compile(r' (?:id|name)="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocstrings", reason="run: make setup-dev")
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(made)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return made


def test_every_page_is_on_it(site: Path) -> None:
    """And those beside docs/ that are linked to."""
    pages = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md")}
    made = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    assert {name.replace("README.html", "index.html") for name in pages} <= made
    assert {"repository/CONTRIBUTING.html", "repository/CHANGELOG.html", "repository/examples/bare_loop.py"} <= {
        *made,
        *(path.relative_to(site).as_posix() for path in site.rglob("*.py")),
    }


def test_every_link_on_it_leads_somewhere(site: Path) -> None:
    text = {page: page.read_text() for page in site.rglob("*.html")}
    anchors = {page: set(ANCHOR.findall(body)) for page, body in text.items()}
    broken = []
    for page, body in text.items():
        if page.name == "404.html":  # its links begin at the root of a server
            continue
        for link in set(HREF.findall(body)):
            if re.match("https?:|mailto:|data:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (anchor and anchor not in anchors[target]):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []
    assert len(text) > 100
