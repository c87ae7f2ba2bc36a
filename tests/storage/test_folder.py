"""The file-system module: atomic, private, link-free, and plain about what the disk refuses."""

import errno
import os
import stat
from pathlib import Path

import pytest

from rlstudio.core.errors import ConfigError, StorageError
from rlstudio.storage import failpoint
from rlstudio.storage.folder import Folder, ensure_directory
from rlstudio.storage.writers import is_full


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def operations():
    seen: list[failpoint.Operation] = []
    failpoint.restart(seen.append)
    yield seen
    failpoint.restart()


def test_replace_is_temp_sync_rename_sync(folder, operations):
    folder.replace("status.json", b"old")
    operations.clear()
    folder.replace("status.json", b"new")
    assert [operation.kind for operation in operations] == ["create", "write", "sync", "rename", "sync"]
    assert operations[-1].path == folder.root
    assert folder.read("status.json") == b"new"
    assert folder.names() == ["status.json"]


def test_replace_without_durability_does_not_sync(folder, operations):
    folder.replace("status.json", b"new", durable=False)
    assert [operation.kind for operation in operations] == ["create", "write", "rename"]


def test_everything_is_private_whatever_the_umask(folder):
    before = os.umask(0)
    try:
        folder.make("checkpoints")
        folder.create("checkpoints/a", b"x")
        folder.append("b").close()
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE(folder.path(name).stat().st_mode) for name in ("checkpoints", "checkpoints/a", "b")}
    assert modes == {"checkpoints": 0o700, "checkpoints/a": 0o600, "b": 0o600}


def test_create_is_exclusive(folder):
    folder.create("a", b"first")
    with pytest.raises(StorageError, match="there already"):
        folder.create("a", b"second")
    assert folder.read("a") == b"first"


def test_stream_knows_size_and_hash_of_what_it_wrote(folder):
    import hashlib

    pieces = [os.urandom(n) for n in (0, 1, 1 << 20, (1 << 20) + 1, 17)]
    with folder.stream("a") as writer:
        for piece in pieces:
            writer.write(memoryview(piece))
        written = writer.finish()
    data = b"".join(pieces)
    assert (written.size, written.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert folder.path("a").read_bytes() == data


@pytest.mark.parametrize("name", ["../a", "a/../b", "/etc/passwd", "a//b", "a/", ".", "..", "a\0b", "./a"])
def test_a_name_never_leaves_the_folder(folder, name):
    for act in (folder.read, folder.kind, folder.unlink, folder.make, folder.append, lambda n: folder.rename(n, "x")):
        with pytest.raises(StorageError, match="not a name inside"):
            act(name)


def test_links_are_never_followed(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("keep")
    folder.path("file").symlink_to(outside / "secret")
    folder.path("dir").symlink_to(outside)
    for act in (
        lambda: folder.read("file"),
        lambda: folder.read("dir/secret"),
        lambda: folder.append("file"),
        lambda: folder.create("dir/new", b"x"),
        lambda: folder.unlink("dir/secret"),
        lambda: folder.sync("dir"),
        lambda: folder.names("dir"),
        lambda: folder.lock("file"),
    ):
        with pytest.raises(StorageError, match="link"):
            act()
    folder.remove_tree("dir")  # removes the link itself
    folder.replace("file", b"mine")  # replaces the link itself
    assert (outside / "secret").read_text() == "keep"
    assert sorted(p.name for p in outside.iterdir()) == ["secret"]


def test_a_pipe_in_place_of_a_file_does_not_block(folder):
    os.mkfifo(folder.path("status.json"))
    with pytest.raises(StorageError, match="not a regular file"):
        folder.read("status.json")


def test_remove_tree_renames_first(folder, operations):
    folder.make("a")
    folder.make("a/b")
    folder.create("a/b/c", b"x")
    operations.clear()
    folder.remove_tree("a")
    assert [operation.kind for operation in operations] == ["rename", "unlink", "rmdir", "rmdir"]
    assert operations[0].target.name.startswith(".trash-")
    assert folder.names() == []


def test_sweep_removes_only_leftovers(folder):
    folder.make(".tmp-1-abc")
    folder.create(".tmp-1-abc/x", b"x")
    folder.create(".trash-x", b"x")
    folder.create("keep", b"x")
    folder.sweep()
    assert folder.names() == ["keep"]


@pytest.mark.parametrize(
    ("kind", "words", "full"), [("eio", "input/output error", False), ("enospc", "free some space", True)]
)
def test_a_refusal_is_one_line_with_path_reason_and_remedy(folder, monkeypatch, kind, words, full):
    failpoint.restart()
    monkeypatch.setenv(failpoint.VARIABLE, f"2:{kind}")
    with pytest.raises(StorageError, match=words) as caught:
        folder.replace("status.json", b"x" * 100)
    assert str(folder.root) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert is_full(caught.value) is full
    monkeypatch.delenv(failpoint.VARIABLE)
    assert folder.names() == []  # the half-written file gave its space back


def test_a_failed_sync_closes_the_file_for_good(folder, monkeypatch):
    writer = folder.append("metrics.jsonl")
    syncs = []

    def refuse(descriptor):
        syncs.append(descriptor)
        raise OSError(errno.EIO, "boom")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError, match="input/output"):
        writer.sync()
    for again in (writer.sync, lambda: writer.append(b"x\n")):
        with pytest.raises(StorageError, match="earlier failure"):
            again()
    assert len(syncs) == 1


def test_short_writes_are_continued(folder, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    folder.create("a", bytes(range(100)))
    assert folder.read("a") == bytes(range(100))


@pytest.mark.parametrize("value", ["3", "kill", "x:kill", "1:explode", "-1:kill", "1:kill:2"])
def test_a_failpoint_that_means_nothing_is_refused(folder, monkeypatch, value):
    monkeypatch.setenv(failpoint.VARIABLE, value)
    with pytest.raises(ConfigError, match="NUMBER:KIND"):
        folder.make("a")


def test_ensure_directory(tmp_path):
    ensure_directory(tmp_path / "a" / "b")
    ensure_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="not a folder"):
        ensure_directory(tmp_path / "file")


def test_only_the_file_module_changes_the_file_system():
    """Otherwise a change would pass no fault point. What a user names (plots, videos) is not a run's."""
    import ast

    changing = {"rename", "replace", "fsync", "unlink", "mkdir", "makedirs", "rmdir", "remove", "truncate", "ftruncate"}
    changing |= {"write_text", "write_bytes", "rmtree", "move", "symlink_to", "hardlink_to"}
    storage = Path(failpoint.__file__).parent
    rooms = (storage, *(storage.parent / "experiment" / room for room in ("checkpoint", "folder", "metrics")))
    choke_points = {
        storage / "folder.py",
        storage / "writers.py",
        storage / "output_file.py",
    }  # the last: a user's file
    files = [path for room in rooms for path in room.glob("*.py") if path not in choke_points]
    assert len(files) > 15
    found = []
    for path in files:
        name = path.stem
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in changing:
                owner = ast.unparse(node.func.value)
                if owner in ("os", "shutil") or "path" in owner.lower():
                    found.append(f"{name}: {ast.unparse(node)}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
                found.append(f"{name}: {ast.unparse(node)}")
    assert found == []
