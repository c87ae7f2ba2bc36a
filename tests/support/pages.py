"""The pages of the project and the code blocks on them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *EXAMPLES.glob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [body for marked, body in BLOCK.findall(page.read_text()) if marked == language]
