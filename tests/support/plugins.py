"""Packages as an installer leaves them beside others: sources, and metadata with entry points."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rlstudio.core.catalog import catalogs
from support.deadlines import PATIENCE

MY_PARTS = Path(__file__).parents[2] / "examples/my_parts"
"""A whole package with one part of each kind."""


def pip_installed(package: Path, work: Path) -> Path:
    """Where pip installed the package, which it built from its source alone."""
    source, folder = shutil.copytree(package, work / "source"), work / "site"
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "install", *quiet, "--target", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    return folder


def install_package(
    site: Path, name: str, version: str, groups: Mapping[str, Mapping[str, str]], sources: Mapping[str, str]
) -> None:
    """`groups` are the entry points, `sources` file -> text."""
    for file, text in sources.items():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    metadata = site / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {at}\n" for key, at in entries.items()) for group, entries in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


@contextmanager
def on_the_path(site: Path) -> Iterator[None]:
    """What is installed there can be imported and is in the catalogs; afterwards nothing of it is left."""
    before = set(sys.modules)
    sys.path.insert(0, str(site))
    _forget_plugins()
    try:
        yield
    finally:
        sys.path.remove(str(site))
        _forget_plugins()
        for module in set(sys.modules) - before:
            if str(getattr(sys.modules[module], "__file__", "")).startswith(str(site)):
                del sys.modules[module]


def _forget_plugins() -> None:
    """Catalogs look once."""
    importlib.invalidate_caches()
    for catalog in catalogs():
        vars(catalog).pop("plugins", None)
