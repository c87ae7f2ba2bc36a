"""Modules of the user that environments come from, by name (`my_package.worlds`) or by file (`envs/drone_env.py`),
and classes in them (`drone_env:Drone`). Nothing is imported here: `experiment.config.imports` does so, and notes it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
CLASS = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class OwnModule(NamedTuple):
    """A module that was imported because the user allowed it."""

    file: str | None  # where it was named by its file
    env_ids: tuple[str, ...]  # that it registered
    is_named_now: bool  # by this command, not by what the store remembers of a run


IMPORTED: dict[str, OwnModule] = {}
"""By name, in the order in which they were imported."""


def imported() -> dict[str, OwnModule]:
    """Those that this process still has."""
    return {name: module for name, module in IMPORTED.items() if name in sys.modules}


def is_file(text: str) -> bool:
    """Whether a module is named by its file."""
    return text.endswith(".py") or "/" in text


def module_name(text: str) -> str:
    """`drone_env` of `drone_env`, `drone_env.py` and `envs/drone_env.py`; ValueError with the reason if it has none."""
    name = PurePath(text).name.removesuffix(".py") if is_file(text) else text
    if is_file(text) and not text.endswith(".py"):
        raise ValueError(
            f"{text!a} is no Python file; name one that ends with .py, or a module like my_package.my_envs"
        )
    if is_file(text) and not CLASS.fullmatch(name):
        raise ValueError(f"{text!a} cannot be imported: its name may have letters, digits and _ only; rename the file")
    if not MODULE.fullmatch(name):
        raise ValueError(f"{text!a} is not the name of a module, like my_package.my_envs")
    return name


def with_files(names: Sequence[str]) -> tuple[str, ...]:
    """The same modules, by their absolute files where the user named those: another process finds the same ones."""
    known = imported()
    return tuple(known[name].file or name if name in known else name for name in names)


def class_id(text: str) -> str:
    """The id of an environment that is named by its class: `drone_env:Drone`, also of `envs/drone_env.py:Drone`, so
    that it does not depend on where the file lies. ValueError with the reason if that is no class of a module."""
    source, _, name = text.rpartition(":")
    module = module_name(source)
    if not CLASS.fullmatch(name):
        raise ValueError(f"{text!a}: {name!a} names no class; use `--import {source}` and env.id={name}")
    return f"{module}:{name}"
