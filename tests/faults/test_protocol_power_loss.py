"""Power loss: what was not synced may be there, be lost, or be there in part, and names may survive without their data.

The changes of one session are recorded, and after every one of them the disk is rebuilt as a power cut may leave it:
file data {kept, lost, half} beyond the last sync of the file, directory entries {kept, lost} beyond the last sync of
the directory (of all directories, or of a single one).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from checkpoint_scenario import HASHES, STEPS, advance, content, leftovers, new_run

from rlstudio.experiment import failpoint
from rlstudio.experiment.checkpoint import Checkpoints, state_hash
from rlstudio.experiment.failpoint import Operation
from rlstudio.experiment.metrics import read_metrics
from rlstudio.experiment.run_folder import RunFolder

CAP = 300


@dataclass
class File:
    data: bytes = b""
    synced: bytes = b""

    def after_cut(self, data: str) -> bytes:
        tail = self.data[len(self.synced) :]
        return {"kept": self.data, "lost": self.synced, "half": self.synced + tail[: len(tail) // 2]}[data]


@dataclass
class Dir:
    entries: dict[str, File | Dir] = field(default_factory=dict)
    synced: dict[str, File | Dir] = field(default_factory=dict)


class Disk:
    """A file system that remembers what is durable."""

    def __init__(self, root: Path) -> None:
        self.path = root
        self.root = self._load(root)

    def _load(self, path: Path) -> Dir:
        entries: dict[str, File | Dir] = {
            entry.name: self._load(entry) if entry.is_dir() else File(entry.read_bytes(), entry.read_bytes())
            for entry in path.iterdir()
        }
        return Dir(dict(entries), dict(entries))

    def _find(self, path: Path) -> tuple[Dir, str]:
        *above, last = path.relative_to(self.path).parts or ("",)
        node = self.root
        for part in above:
            node = node.entries[part]
        return node, last

    def apply(self, operation: Operation) -> None:
        parent, name = self._find(operation.path)
        match operation.kind:
            case "create":
                parent.entries.setdefault(name, File())
            case "mkdir":
                parent.entries[name] = Dir()
            case "write":
                parent.entries[name].data += bytes(operation.data)
            case "unlink" | "rmdir":
                del parent.entries[name]
            case "rename":
                target, new_name = self._find(operation.target)
                target.entries[new_name] = parent.entries.pop(name)
            case "sync":
                node = parent.entries[name] if name else self.root
                if isinstance(node, Dir):
                    node.synced = dict(node.entries)
                else:
                    node.synced = node.data

    def after_cut(self, data: str, names: str) -> Iterator[tuple[str, bytes | None]]:
        """Every path and its bytes (None: a directory). `names` says whose unsynced entries are lost."""

        def walk(node: Dir, path: str) -> Iterator[tuple[str, bytes | None]]:
            lost = names in ("all", path or "root")
            for name, child in (node.synced if lost else node.entries).items():
                below = f"{path}/{name}" if path else name
                if isinstance(child, Dir):
                    yield below, None
                    yield from walk(child, below)
                else:
                    yield below, child.after_cut(data)

        yield from walk(self.root, "")


def states(begun: Path, operations: list[Operation]) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    disk = Disk(begun)
    seen = set()
    for number, operation in enumerate(operations):
        disk.apply(operation)
        for data in ("kept", "lost", "half"):
            for names in ("none", "all", "root", "checkpoints", "segments"):
                tree = dict(disk.after_cut(data, names))
                if (key := hash(tuple(sorted(tree.items(), key=lambda item: item[0])))) not in seen:
                    seen.add(key)
                    yield f"after {number} {operation.kind} {operation.path.name}, data {data}, names lost: {names}", tree


def lay_out(tree: dict[str, bytes | None], target: Path) -> None:
    for path, data in tree.items():
        if data is None:
            (target / path).mkdir(parents=True)
        else:
            (target / path).write_bytes(data)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    root = tmp_path_factory.mktemp("power")
    begun = new_run(root / "begun")
    advance(begun, STEPS[:1])
    shutil.copytree(begun, root / "copy" / begun.name)
    operations: list[Operation] = []
    failpoint.restart(lambda op: operations.append(op._replace(data=bytes(op.data))))
    advance(begun, STEPS[1:])
    failpoint.restart()
    moved = [
        Operation(op.kind, _moved(op.path, begun, root), op.target and _moved(op.target, begun, root), op.data)
        for op in operations
    ]
    return root / "copy" / moved, begun


def _moved(path: Path, begun: Path, root: Path) -> Path:
    return root / "copy" / begun.name / path.relative_to(begun)


def test_every_state_a_power_cut_can_leave(recorded, tmp_path):
    begun, operations, uninterrupted = recorded
    every = list(states(begun, operations))
    assert len(every) > 150
    expected = [record[1:] for record in read_metrics(uninterrupted)]
    resumed_from = set()
    for what, tree in every[:: -(-len(every) // CAP)]:
        run_dir = tmp_path / begun.name
        run_dir.mkdir()
        lay_out(tree, run_dir)
        assert RunFolder(run_dir).read_status().id == what
        found = Checkpoints(run_dir, None).newest_good()
        assert found is not None, what
        assert found.rejected == [], what
        assert HASHES[state_hash(found.loaded.content)] == found.loaded.info.step, what
        resumed_from.add(found.loaded.info.step)

        advance(run_dir, tuple(step for step in STEPS if step > found.loaded.info.step))
        assert Checkpoints(run_dir, None).newest_good().loaded.info.state_hash == state_hash(content(300)), what
        assert [record[1:] for record in read_metrics(run_dir)] == expected, what
        assert leftovers(run_dir) == [], what
        shutil.rmtree(run_dir)
    assert resumed_from == set(STEPS)
