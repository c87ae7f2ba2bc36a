"""What the installation asks for, and what to type when a part of it is missing.

The distribution has another name than the package: on the public index `rlstudio` is a program of somebody else
(docs/decisions/0039). So a remedy never tells pip to fetch RLStudio. It names the packages that are missing, in the
ranges of our own metadata, or the target of the Makefile that installs them.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

DISTRIBUTION = "rlctl"
ROOT = Path(__file__).resolve().parents[4]
"""Of the checkout, where the code lies in one."""

COVERED_BY = {"setup": ("user", "envs", "dev"), "setup-envs": ("envs", "dev"), "setup-dev": ("dev",)}
"""Targets of the Makefile, and the profiles of bootstrap.sh that have all that the target would install."""

IN_SETUP = ("serve",)
"""Extras that `make setup` installs with the rest."""

APART = ("axelrod", "bench")
"""Extras that no target installs."""

REINSTALL = "install RLStudio anew: the list of its packages is missing"

_REQUIREMENT = re.compile(r"([\w.-]+)(\[[\w,-]+\])? *\(?([^;()]*)\)? *(?:;(.*))?")


class Requirement(NamedTuple):
    package: str
    extras: str
    """Of that package, in brackets; mostly empty."""

    ranges: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.package}{self.extras}{','.join(self.ranges)}"


def requirements(extra: str = "") -> list[Requirement]:
    """What an extra of ours brings, or what always comes along; nothing where the installation does not say."""
    lines = _of_checkout(extra) if is_checkout() else _of_metadata(extra)
    return [_parsed(line) for line in lines]


def remedy(extra: str, package: str = "") -> str:
    """What to do about a missing extra, or about one package of it: one command, in backticks."""
    target = _target(extra)
    if target is not None:
        place = "" if Path.cwd() == ROOT else f"-C {shlex.quote(str(ROOT))} "
        return f"run `make {place}{target}`"
    wanted = [requirement for requirement in requirements(extra) if package in ("", requirement.package)]
    missing = [requirement for requirement in wanted if not _is_installed(requirement.package)]
    return pip_line(missing or wanted)


def pip_line(wanted: Iterable[Requirement]) -> str:
    """What installs these, or brings them into their ranges."""
    listed = " ".join(f'"{requirement}"' for requirement in wanted)
    return f"run `pip install {listed}`" if listed else REINSTALL


def is_checkout() -> bool:
    return all((ROOT / name).is_file() for name in ("pyproject.toml", "Makefile", "bootstrap.sh"))


def _target(extra: str) -> str | None:
    """The target of the Makefile, where this process runs in the environment that it makes and there is something left
    to do: a target that was made before does nothing, whatever was uninstalled by hand since."""
    environment = ROOT / ".venv"
    if extra in APART or not is_checkout() or Path(sys.prefix).resolve() != environment.resolve():
        return None
    of_envs = {name for line in _of_checkout("envs") for name in _parsed(line).extras.strip("[]").split(",")}
    is_plain = not extra or extra in IN_SETUP
    target = "setup" if is_plain else "setup-envs" if extra in of_envs else "setup-dev"
    is_made = any(any(environment.glob(f".ready-{profile}-*")) for profile in COVERED_BY[target])
    return None if is_made else target


def _of_checkout(extra: str) -> list[str]:
    """The file itself: what pip recorded may be older."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines: list[str] = project["optional-dependencies"].get(extra, []) if extra else project["dependencies"]
    return lines


def _of_metadata(extra: str) -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    return [line for line in lines if _extra_of(line) == extra]


def _extra_of(line: str) -> str:
    named = re.search(r"""\bextra *== *["']([\w-]+)["']""", line)
    return named[1] if named else ""


def _parsed(line: str) -> Requirement:
    """Lower bounds go first, as people write them; metadata has them in any order."""
    match = _REQUIREMENT.fullmatch(line.strip())
    if match is None:
        raise ValueError(f"not a requirement: {line!r}")
    package, extras, ranges, _ = match.groups()
    bounds = [bound.strip() for bound in ranges.split(",") if bound.strip()]
    return Requirement(package, extras or "", tuple(sorted(bounds, key=lambda bound: bound.startswith("<"))))


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
