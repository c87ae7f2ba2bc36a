"""Supply chain and version floors (S22): what is linked and installed is not older than is safe, at run time too."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Incompatible
from rlstudio.core.host import floors
from rlstudio.core.host.floors import require_floors, require_sqlite

ROOT = Path(__file__).parents[2]
SAFE = {"torch": (2, 10), "starlette": (0, 49, 1), "ray": (2, 54)}
"""The oldest without a known hole that reaches us: CVE-2026-24747, CVE-2025-62727, CVE-2026-27482."""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    require_floors.cache_clear()
    yield
    require_floors.cache_clear()


def test_what_is_installed_and_asked_for_is_safe() -> None:
    asked = {one.package: one.ranges for extra in ("", "serve", "ray") for one in floors.requirements(extra)}
    for package, floor in SAFE.items():
        assert floors._numbers(version(package)) >= floor, package
        (bound,) = [bound[2:] for bound in asked[package] if bound.startswith(">=")]
        assert floors._numbers(bound) >= floor, f"{package}: pyproject.toml allows {bound}"
    print(f"{len(SAFE)} packages, SQLite {sqlite3.sqlite_version}")


def test_one_that_was_replaced_by_an_older_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "version", lambda name: "2.9.1+cpu" if name == "torch" else "99")
    with pytest.raises(Incompatible, match=r"^torch 2\.9\.1\+cpu: older than 2\.10, .* \"torch>=2\.10,<3\"`$"):
        require_floors()


def test_training_and_the_server_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlstudio.core.host.extras import Extra
    from rlstudio.experiment.training.machine import set_threads
    from rlstudio.scale.ray_start import import_ray
    from rlstudio.server.http.wire.running import ListenPlace, listen

    monkeypatch.setattr(floors, "version", lambda name: "0.1")
    for use in (
        lambda: set_threads(1),
        lambda: listen(ListenPlace("127.0.0.1", 0)),
        lambda: import_ray("rollout.backend"),
        lambda: Extra("export", "onnx").load("--format", "onnx"),
    ):
        with pytest.raises(Incompatible, match=r"0\.1: older than"):
            use()


def test_the_store_asks_for_the_linked_sqlite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_sqlite()
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(Incompatible, match=r"^SQLite .*: older than 3\.35\.0"):
        _ = Workspace(tmp_path / "runs").store


def test_the_store_has_no_write_ahead_log(tmp_path: Path) -> None:
    with Workspace(tmp_path / "runs").store.database.write() as connection:
        assert connection.exec_driver_sql("pragma journal_mode").scalar() == "delete"


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "docs" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bill_of_materials(sbom: ModuleType) -> None:
    """Each package once, with its version, and nobody depends on what is not listed."""
    bill = json.loads(json.dumps(sbom.bill()))
    refs = [one["bom-ref"] for one in bill["components"]]
    assert len(refs) == len({*refs})
    named = {one["name"]: one["version"] for one in bill["components"]}
    assert named["torch"] == version("torch")
    assert {"numpy", "sqlalchemy", "starlette", "greenlet"} <= named.keys()
    known = {*refs, bill["metadata"]["component"]["bom-ref"]}
    assert {ref for one in bill["dependencies"] for ref in (one["ref"], *one["dependsOn"])} == known
    print(f"{len(refs)} packages")
