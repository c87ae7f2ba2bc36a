"""A backup is whole whatever is written meanwhile, and is put back verified or not at all."""

from __future__ import annotations

import io
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from rlstudio.cli.app import main
from rlstudio.control.registry.backup import restore_backup, write_backup
from rlstudio.control.registry.releases import Releases
from rlstudio.control.runs.start import start_session
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import BundleError, CheckpointError, UserError
from support.control_world import request
from support.experiments import tiny
from support.processes import running


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup that was taken in the middle of a run, beside a version of a model."""
    place = tmp_path_factory.mktemp("backup")
    workspace = Workspace(place / "runs")
    with start_session(workspace, tiny(train={"epochs": 1})) as session:
        for _ in session:
            pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlstudio.control.registry.releases._formats", lambda: ("bundle",))
        Releases(workspace).version(session.folder.id, "cart", "last")
    with start_session(workspace, tiny(train={"epochs": 2}, name="going_on")) as session:
        for tick in session:
            if tick.report is not None and tick.epoch == 1:
                assert main(["backup", str(place / "b.tar"), "--runs-dir", str(place / "runs")]) == 0
    assert workspace.find("going_on").status.state == "COMPLETED"
    return place / "b.tar"


def test_what_was_there_in_the_middle_of_a_run_comes_back(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", str(saved), "--restore", "--runs-dir", str(tmp_path / "new")]) == 0
    assert "2 runs, 1 bundles" in capsys.readouterr().out
    workspace = Workspace(tmp_path / "new")
    assert {run.name: run.state for run in workspace.store.runs()} == {"tiny": "COMPLETED", "going_on": "RUNNING"}
    releases = Releases(workspace)
    (version,) = releases.versions("cart")
    assert releases.bundle(version).sha256 == version.digest
    original = Releases(Workspace(saved.parent / "runs"))
    assert releases.bundle(version).weights().keys() == original.bundle(version).weights().keys()


def test_every_backup_is_whole_while_another_process_writes(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "runs")
    first = workspace.store.create(request())

    def write() -> None:
        mine = Workspace(tmp_path / "runs")
        while True:
            mine.store.create(request())

    counts = []
    with running(write):
        while len(set(counts)) < 3:  # until three of them differ: then it wrote in between
            target = tmp_path / f"{len(counts)}.tar"
            counts.append(write_backup(workspace, target).runs)
            restored = Workspace(tmp_path / f"restored-{len(counts)}")
            assert restore_backup(restored, target).runs == counts[-1]
            with closing(sqlite3.connect(restored.state_dir / "store.db")) as store:
                assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert restored.store.count() == counts[-1]
            assert restored.store.get(first.id).id == first.id
    assert counts == sorted(counts)


def damaged(saved: Path, tmp_path: Path, name: str, change: bytes | None) -> Path:
    """The backup with one member changed, or left out."""
    target = tmp_path / "damaged.tar"
    with tarfile.open(saved) as source, tarfile.open(target, "w") as copy:
        for entry in source.getmembers():
            stream = source.extractfile(entry)
            assert stream is not None
            data = stream.read()
            if entry.name.endswith(name):
                if change is None:
                    continue
                data = data[: -len(change)] + change
            copy.addfile(entry, io.BytesIO(data))
    return target


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("store.db", b"\x01", "store.db: its sha256 is not the one in the manifest"),
        ("weights.safetensors", b"\x7f", "weights.safetensors: its sha256 is not the one in the manifest"),
        ("spec.json", None, "spec.json: missing"),
        ("MANIFEST.json", b"!", "MANIFEST.json: its sha256 does not match its content"),
        ("store.db", None, "store.db: missing"),
    ],
)
def test_a_damaged_one_is_refused_by_its_file_and_leaves_nothing(
    saved: Path, tmp_path: Path, name: str, change: bytes | None, said: str
) -> None:
    file = damaged(saved, tmp_path, name, change)
    with pytest.raises(CheckpointError, match=said):
        restore_backup(Workspace(tmp_path / "new"), file)
    assert not any((tmp_path / "new").iterdir())


def test_a_member_that_leads_elsewhere_is_refused(saved: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil.tar"
    evil.write_bytes(saved.read_bytes())
    with tarfile.open(evil, "a") as archive:
        link = tarfile.TarInfo("../../outside")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(CheckpointError, match=r"outside.*: is not what the manifest lists"):
        restore_backup(Workspace(tmp_path / "new"), evil)
    assert not any((tmp_path / "new").iterdir())
    (tmp_path / "text.tar").write_text("not a backup")
    with pytest.raises(CheckpointError, match="is not a backup, or damaged"):
        restore_backup(Workspace(tmp_path / "new"), tmp_path / "text.tar")


def test_nothing_is_written_over(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not empty; restore into another place"):
        restore_backup(Workspace(saved.parent / "runs"), saved)
    with pytest.raises(UserError, match="is there already; name a new file"):
        write_backup(Workspace(saved.parent / "runs"), saved)
    with pytest.raises(UserError, match="there is no store to back up; name where the runs lie with --runs-dir"):
        write_backup(Workspace(tmp_path / "nothing"), tmp_path / "new.tar")
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_that_is_missing_is_named(saved: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "runs")
    restore_backup(workspace, saved)
    (blob,) = (workspace.state_dir / "registry" / "blobs").iterdir()
    shutil.rmtree(blob)
    with pytest.raises(BundleError, match=f"{blob.name}: a version of the store is this bundle, and it is missing"):
        write_backup(workspace, tmp_path / "again.tar")
    assert not (tmp_path / "again.tar").exists()


def test_a_store_of_a_server_says_what_to_use(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "runs", url="postgresql://nowhere/rlstudio")
    for act in (lambda: write_backup(workspace, tmp_path / "b"), lambda: restore_backup(workspace, tmp_path / "b")):
        with pytest.raises(
            UserError, match=r"back it up with pg_dump and put it back with pg_restore, and copy .*registry"
        ):
            act()
