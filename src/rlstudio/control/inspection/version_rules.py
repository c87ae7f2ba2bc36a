"""The packages that are installed, against those that RLStudio asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from rlstudio.core.host.installation import remedy, requirements
from rlstudio.experiment.doctor.advice import Advice

_BOUND = re.compile(r"(>=|<)\s*([0-9][0-9.]*)")


def inspect_versions() -> Iterator[Advice]:
    for wanted in requirements():
        try:
            there = version(wanted.package)
        except PackageNotFoundError:
            yield Advice("error", "package", f"{wanted.package} is not installed", remedy("", wanted.package))
            continue
        if not within(there, wanted.ranges):
            text = f"{wanted.package} {there} is installed; RLStudio is made for {','.join(wanted.ranges)}"
            yield Advice("warning", "package", text, remedy("", wanted.package))


def within(there: str, ranges: tuple[str, ...]) -> bool:
    """Whether a version lies between bounds like `>=2.10` and `<3`; what is written otherwise is not judged."""
    for bound in ranges:
        match = _BOUND.fullmatch(bound.strip())
        if match is None:
            continue
        mine, limit = _numbers(there), _numbers(match[2])
        if (mine < limit) if match[1] == ">=" else (mine >= limit):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    """`2.10.0+cpu` and `2.10` are alike."""
    digits = re.match(r"[0-9]+(\.[0-9]+)*", text)
    parts = [int(part) for part in digits[0].split(".")] if digits else []
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)
