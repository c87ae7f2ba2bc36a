"""How many examples a property is tried with. `make test` takes a share of them, `make test-all` all.

Examples are drawn the same way each time, so the share is the beginning of the whole, with the smallest cases in it.
"""

from __future__ import annotations

import re
from typing import Any

from hypothesis import settings

USUAL = 100
FEWEST = 20
_SHARE = 4


class _Asked:
    is_all = True


def ask_for(marks: str) -> None:
    """Where the slow tests are left out (`-m "not slow"`), the examples that only repeat are left out too."""
    _Asked.is_all = re.search(r"\bnot slow\b", marks) is None
    settings.register_profile("rlstudio", max_examples=_count(USUAL), deadline=None, derandomize=True)
    settings.load_profile("rlstudio")


def examples(count: int, **more: Any) -> settings:
    """For a property that needs another number of examples than the usual one."""
    return settings(max_examples=_count(count), deadline=None, **more)


def _count(count: int) -> int:
    return count if _Asked.is_all else min(count, max(FEWEST, count // _SHARE))
