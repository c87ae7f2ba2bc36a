"""Modules of the user that register environments: named by `--import`, and stored with the run to be opened again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from rlstudio.core.errors import RLStudioError, UserError
from rlstudio.core.parsing.yaml_file import Document


def import_modules(modules: Sequence[str], named_by: str = "--import") -> None:
    """Import them, from the working directory too: last, so that a file there cannot stand in for a library.
    `named_by` begins the message about one that cannot be imported."""
    if modules and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    for module in modules:
        try:
            import_module(module)
        except RLStudioError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            missing = isinstance(error, ModuleNotFoundError)
            remedy = "run from the directory where it lies, or install it" if missing else "correct the module"
            raise UserError(f"{named_by} {module}: {reason}; {remedy}") from error


def import_stored(document: Document) -> None:
    """Import the modules that a stored config names under `imports`; what is no list of names is left to its parser."""
    modules = stored_imports(document)
    import_modules(modules, f"{document.where(('imports',))}: imports:")


def stored_imports(document: Document) -> tuple[str, ...]:
    named = document.data.get("imports") if isinstance(document.data, dict) else None
    return tuple(named) if isinstance(named, list) and all(isinstance(name, str) for name in named) else ()
