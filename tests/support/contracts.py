"""Contract suites over many parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def suites(contract: type, parts: Mapping[str, Mapping[str, Any]]) -> dict[str, type]:
    """A test class for each part, with these attributes beside its name."""
    kind = contract.__name__.removesuffix("Contract")
    return {
        f"Test{kind}_{name}": type(f"Test{kind}_{name}", (contract,), {"part": name, **attributes})
        for name, attributes in parts.items()
    }
