"""`--import`: modules of the user that register environments, now and when the run is opened again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from rlstudio.core.errors import RLStudioError, UserError


def import_modules(modules: Sequence[str]) -> None:
    """Import them, from the working directory too: last, so that a file there cannot stand in for a library."""
    if modules and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    for module in modules:
        try:
            import_module(module)
        except RLStudioError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UserError(
                f"--import {module}: {reason}; it is looked for in the installed packages and here"
            ) from error
