"""Modules of the user that environments come from: named by `--import`, remembered by the store, never by a folder.

Importing runs code, so a run folder cannot cause it (decision 0034). What may be imported is named by the user or by
the store and is imported first; a folder is read afterwards, and `require_imported` refuses one that wants more.

A module is named by its name or by its file. A file is imported under its own name, with its folder at the end of the
path, so that what lies beside it and a worker process find the same module (decision 0045).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from site import getsitepackages
from sysconfig import get_paths
from typing import NamedTuple

from rlstudio.core.errors import RLStudioError, UserError, message_of
from rlstudio.core.parsing.yaml_file import Document
from rlstudio.envs.own_modules import IMPORTED, OwnModule, imported, is_file, module_name, with_files
from rlstudio.experiment.folder.run_folder import CONFIG, EVENTS
from rlstudio.experiment.folder.runs_dir import usual_runs_dir

__all__ = [
    "import_modules",
    "import_path",
    "import_remembered",
    "import_stored",
    "module_name",
    "require_imported",
    "stored_imports",
    "with_files",
]

NAMED_NOW = "--import"


class _Wanted(NamedTuple):
    name: str
    file: Path | None
    label: str  # begins every message about it


def import_modules(
    modules: Sequence[str], named_by: str = NAMED_NOW, *, path: Sequence[str] = (), runs_dir: Path | None = None
) -> tuple[str, ...]:
    """Import modules, each given by its name or its file; returns their names. They are also looked for in the folders
    of `path` and in the working directory: these come last, so that a file in them cannot stand in for a library. What
    lies below a runs folder is never imported. `named_by` begins the message about one that cannot be imported."""
    if not modules:
        return ()
    runs = (runs_dir or usual_runs_dir()).resolve()
    wanted = [_wanted(text, named_by) for text in modules]
    folders = [str(module.file.parent) for module in wanted if module.file is not None]
    for place in [*path, *folders, str(Path.cwd())]:
        if place not in sys.path and not _is_below_runs(Path(place), runs):
            sys.path.append(place)
    importlib.invalidate_caches()
    for module in wanted:
        try:
            _refuse_in_runs(module, runs)
            _refuse_another(module)
            _import(module, is_named_now=named_by == NAMED_NOW)
        except RLStudioError:
            raise
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {message_of(error)}"
            raise UserError(f"{module.label}: {reason}; {_remedy(module.name, error)}") from error
    return tuple(dict.fromkeys(module.name for module in wanted))


def _remedy(name: str, error: BaseException) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return "correct the module"
    if error.name != name.partition(".")[0]:
        return "run from the directory where that lies, or install it"
    return f"name its file ({NAMED_NOW} PATH/{name}.py), run from the directory where it lies, or install it"


def import_remembered(modules: Sequence[str], named_by: str, *, path: Sequence[str], runs_dir: Path) -> None:
    """Import what the store remembers of a run. A module that the user has named anew for this command counts instead:
    its file may have moved."""
    named_now = {name for name, module in imported().items() if module.is_named_now}
    wanted = [text for text in modules if not (is_file(text) and module_name(text) in named_now)]
    import_modules(wanted, named_by, path=path, runs_dir=runs_dir)


def _wanted(text: str, named_by: str) -> _Wanted:
    label = f"{named_by} {text}"
    try:
        name = module_name(text)
    except ValueError as error:
        raise UserError(f"{named_by}: {error}") from error
    if not is_file(text):
        return _Wanted(name, None, label)
    file = Path(os.path.abspath(os.path.expanduser(text)))
    if not file.is_file():
        from_here = f"give its path from here ({Path.cwd()})"
        remedy = from_here if named_by == NAMED_NOW else f"say where it is now: {NAMED_NOW} PATH/{file.name}"
        raise UserError(f"{label}: there is no such file; {remedy}")
    return _Wanted(name, file, label)


def _import(module: _Wanted, *, is_named_now: bool) -> None:
    """Import it and note which environments it registered, for messages about one that it did not."""
    import gymnasium

    before = set(gymnasium.registry)
    importlib.import_module(module.name)
    earlier = imported().get(module.name)
    ids = (set(gymnasium.registry) - before) | set(earlier.env_ids if earlier else ())
    file = str(module.file) if module.file is not None else earlier.file if earlier else None
    IMPORTED[module.name] = OwnModule(file, tuple(sorted(ids)), is_named_now)


def _refuse_another(module: _Wanted) -> None:
    """Refuse a file whose name belongs to another module, which would be imported in its place, here or in a worker."""
    if module.file is None:
        return
    loaded = sys.modules.get(module.name)
    spec = getattr(loaded, "__spec__", None) if loaded is not None else find_spec(module.name)
    origin = None if spec is None else spec.origin
    if origin is None or not os.path.exists(origin) or not os.path.samefile(origin, module.file):
        there = "is imported already" if loaded is not None else "comes first on the import path"
        raise UserError(f"{module.label}: another module {module.name} ({origin}) {there}; rename the file")


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
            f" launched here with that; if you trust it, allow it by name: {options}, or by its file (in Python: import"
            " it first)"
        )


def stored_imports(document: Document) -> tuple[str, ...]:
    """The names in a stored config; what is no list of names is left to its parser."""
    named = document.data.get("imports") if isinstance(document.data, dict) else None
    return tuple(named) if isinstance(named, list) and all(isinstance(name, str) for name in named) else ()


def _refuse_in_runs(module: _Wanted, runs: Path) -> None:
    """Find a module without running anything; refuse it where it or a package around it lies below a runs folder."""
    for place in _places(module):
        if _is_below_runs(Path(place), runs):
            raise UserError(
                f"{module.label}: {place} is below a runs folder, from which nothing is imported;"
                " move the module out of it, or install it"
            )


def _places(module: _Wanted) -> Iterator[str]:
    """The files and folders that it would be imported from, the outermost package first."""
    if module.file is not None:
        yield str(module.file)
    for spec in _specs(module.name):
        yield from spec.submodule_search_locations or ()
        if spec.has_location and spec.origin:
            yield spec.origin


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
