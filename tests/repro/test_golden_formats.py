"""R21: a file of every format, as each version wrote it, still opens (those of runs: `test_old_runs.py`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlstudio.control.registry.backup import VERSION as BACKUP
from rlstudio.control.registry.backup import restore_backup
from rlstudio.control.registry.releases import Releases
from rlstudio.control.store.migrations import VERSION as STORE
from rlstudio.control.workspace import Workspace
from rlstudio.core.run_state import RunState
from rlstudio.delivery.bundle import VERSION as BUNDLE
from rlstudio.delivery.bundle import open_bundle
from rlstudio.experiment.checkpoint.manifest import VERSION as CHECKPOINT
from rlstudio.experiment.metrics.fragment_log import FragmentLog
from rlstudio.server.http.records.audit import AuditLog
from rlstudio.server.http.tokens import Tokens
from support.golden_formats import FORMATS, ROUNDS
from support.golden_store import GOLDEN


def test_every_version_that_is_written_has_its_golden_file() -> None:
    """Who raises one keeps the old file, and adds one."""
    assert (BACKUP, BUNDLE, CHECKPOINT, STORE) == (1, 1, 2, 4)
    names = {path.name for path in GOLDEN.iterdir()}
    assert {"store-v1.db", "store-v4.db", "bundle-v1", "checkpoint-v1", "run-v1", "run-v2", "formats-v1"} <= names
    print(f"{len(names)} cases of golden files")


@pytest.mark.parametrize("name", ["store-v1.db", "store-v4.db"])
def test_a_store(name: str, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / ".rlstudio").mkdir()
    shutil.copy(GOLDEN / name, tmp_path / ".rlstudio" / "store.db")
    runs = {run.name: run.state for run in workspace.store.runs()}
    assert {runs[f"is {state}"] for state in RunState} == {*RunState}
    assert runs["whole ü"] == RunState.INTERRUPTED


def test_a_bundle() -> None:
    assert open_bundle(GOLDEN / "bundle-v1").weights()


def test_a_backup(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "runs")
    assert restore_backup(workspace, FORMATS / "backup.tar").runs == 1
    releases = Releases(workspace)
    (version,) = releases.versions("pole")
    assert releases.bundle(version).sha256 == version.digest


def test_tokens_and_the_audit_log(tmp_path: Path) -> None:
    shutil.copytree(FORMATS / "server", tmp_path / "server")
    laptop, gone = Tokens(tmp_path, lambda: 1_700_000_060.0).listed()
    assert (laptop.name, laptop.state(1_700_000_060.0)) == ("laptop", "active")
    assert (gone.name, gone.state(1_700_000_060.0)) == ("gone", "revoked")
    audit = AuditLog(tmp_path)
    assert audit.first_broken() is None
    (record,) = audit.listed()
    assert (record["who"], record["status"]) == ("laptop", 201)


def test_the_log_of_fragments(tmp_path: Path) -> None:
    shutil.copy(FORMATS / "fragments.jsonl", tmp_path)
    assert [*FragmentLog(tmp_path).rounds()] == ROUNDS
