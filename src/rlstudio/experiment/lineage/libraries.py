"""The libraries whose versions decide bits, and those that are installed. Free of torch."""

from __future__ import annotations

from importlib.metadata import version

LIBRARIES = ("torch", "numpy", "gymnasium")


def installed_libraries() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}
