"""An environment that is typed on the command line may name the code that it comes from, as `drone_env.py:Drone`:
typing it allows that code to be imported, as `--import drone_env.py` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ENV_ID = "env.id="


class TypedEnv(NamedTuple):
    id: str
    module: str | None  # to be imported, by its name or its file


def typed_env(text: str) -> TypedEnv:
    """`drone_env.py:Drone` is a class; `drone_env.py:Drone-v0` an id that the module registers, as in Gymnasium."""
    module, colon, name = text.rpartition(":")
    if not colon:
        return TypedEnv(text, None)
    return TypedEnv(text if name.isidentifier() else name, module)


def import_typed(
    modules: Sequence[str] | None, env: str | None, overrides: Sequence[str] | None, runs_dir: Path | None = None
) -> tuple[tuple[str, ...], str | None, list[str]]:
    """Import what was named by `--import`, by `--env` and by `env.id=...`. Returns the names of these modules, the
    environment, and the overrides, with the ids that are left of both."""
    from rlstudio.experiment.config.imports import import_modules

    chosen = None if env is None else typed_env(env)
    typed = [None if chosen is None else chosen.module]
    changed = []
    for override in overrides or ():
        if override.startswith(ENV_ID):
            id, module = typed_env(override.removeprefix(ENV_ID))
            typed.append(module)
            changed.append(f"{ENV_ID}{id}")
        else:
            changed.append(override)
    sources = dict.fromkeys([*(modules or ()), *filter(None, typed)])
    return import_modules(list(sources), runs_dir=runs_dir), None if chosen is None else chosen.id, changed
