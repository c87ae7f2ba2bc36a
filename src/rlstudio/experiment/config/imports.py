"""Modules of the user that register environments: named by `--import`, remembered by the store, never by a folder.

Importing runs code, so a run folder cannot cause it (decision 0034). What may be imported is named by the user or by
the store and is imported first; a folder is read afterwards, and `require_imported` refuses one that wants more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from site import getsitepackages
from sysconfig import get_paths

from rlstudio.core.errors import RLStudioError, UserError, message_of
from rlstudio.core.parsing.yaml_file import Document
from rlstudio.experiment.folder.run_folder import CONFIG, EVENTS
from rlstudio.experiment.folder.runs_dir import usual_runs_dir


def import_modules(
    modules: Sequence[str], named_by: str = "--import", *, path: Sequence[str] = (), runs_dir: Path | None = None
) -> None:
    """Import them, also from the folders of `path` and from the working directory: these come last, so that a file in
    them cannot stand in for a library. What lies below a runs folder is never imported.
    `named_by` begins the message about one that cannot be imported."""
    runs = (runs_dir or usual_runs_dir()).resolve()
    if modules:
        for place in [*path, str(Path.cwd())]:
            if place not in sys.path and not _is_below_runs(Path(place), runs):
                sys.path.append(place)
    for module in modules:
        try:
            _refuse_in_runs(module, runs, named_by)
            import_module(module)
        except RLStudioError:
            raise
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {message_of(error)}"
            missing = isinstance(error, ModuleNotFoundError)
            remedy = "run from the directory where it lies, or install it" if missing else "correct the module"
            raise UserError(f"{named_by} {module}: {reason}; {remedy}") from error


def import_path() -> list[str]:
    """The folders that this process imports from beside what is installed: another process finds modules there too."""
    places = [Path(place).resolve() for place in sys.path if place]
    return [str(place) for place in places if place.is_dir() and not _is_installed(place)]


def import_stored(document: Document) -> None:
    """Import the modules that a stored config names under `imports`. Only for one that comes from the store, or whose
    modules the user has allowed."""
    import_modules(stored_imports(document), f"{document.where(('imports',))}: imports:")


def require_imported(document: Document) -> None:
    """Refuse the config of a run folder that names a module which is not imported yet; nothing is imported here."""
    if missing := [module for module in stored_imports(document) if module not in sys.modules]:
        options = " ".join(f"--import {module}" for module in missing)
        raise UserError(
            f"{document.where(('imports',))}: imports: the folder wants to import {', '.join(missing)}, and it was not"
            f" launched here with that; if you trust it, allow it by name: {options} (in Python: import it first)"
        )


def stored_imports(document: Document) -> tuple[str, ...]:
    """The names in a stored config; what is no list of names is left to its parser."""
    named = document.data.get("imports") if isinstance(document.data, dict) else None
    return tuple(named) if isinstance(named, list) and all(isinstance(name, str) for name in named) else ()


def _refuse_in_runs(module: str, runs: Path, named_by: str) -> None:
    """Find a module without running anything; refuse it where it or a package around it lies below a runs folder."""
    for spec in _specs(module):
        places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])]
        for place in filter(None, places):
            if _is_below_runs(Path(place), runs):
                raise UserError(
                    f"{named_by} {module}: {place} is below a runs folder, from which nothing is imported;"
                    " move the module out of it, or install it"
                )


def _specs(module: str) -> Iterator[ModuleSpec]:
    """Where the packages around a module and the module itself would be imported from, as far as they are found."""
    parts = module.split(".")
    if parts[0] in sys.modules and module in sys.modules:
        return
    path: Iterable[str] | None = None
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        spec = find_spec(name) if depth == 1 else PathFinder.find_spec(name, list(path or ()))
        if spec is None:
            return
        yield spec
        path = spec.submodule_search_locations


def _is_installed(place: Path) -> bool:
    return any(place.is_relative_to(folder) for folder in _installed_folders())


@cache
def _installed_folders() -> tuple[Path, ...]:
    """The standard library and the site packages of this Python, and the folder of its programs, which Python puts in
    front of the path when it starts one of them."""
    paths = get_paths()
    named = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")]
    return tuple(Path(folder).resolve() for folder in [*named, *getsitepackages()])


def _is_below_runs(place: Path, runs: Path) -> bool:
    """Below the runs folder of this command, or inside a folder that holds a run. What is installed for this Python
    counts as outside: a virtual environment may lie anywhere."""
    resolved = place.resolve()
    if _is_installed(resolved):
        return False
    around = (resolved, *resolved.parents)
    return runs in around or any((folder / CONFIG).is_file() and (folder / EVENTS).is_file() for folder in around)
