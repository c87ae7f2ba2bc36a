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
from typing import NamedTuple

import pytest
from checkpoint_scenario import STEPS, advance, leftovers, new_run, newest

from rlstudio.experiment import failpoint
from rlstudio.experiment.checkpoint import Checkpoints
from rlstudio.experiment.failpoint import Operation
from rlstudio.experiment.metrics import read_metrics
from rlstudio.experiment.run_folder import RunFolder

CAP = 300
pytestmark = pytest.mark.usefixtures("instant_sync")


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


class State(NamedTuple):
    """What a power cut may leave, after how many changes, and how it came about."""

    tree: dict[str, bytes | None]
    changes: int
    what: str


def states(begun: Path, operations: list[Operation]) -> list[State]:
    """All different ones; of equal ones the latest, which has the most to keep."""
    disk = Disk(begun)
    found: dict[int, State] = {}
    for number, operation in enumerate(operations, start=1):
        disk.apply(operation)
        for data in ("kept", "lost", "half"):
            for names in ("none", "all", "root", "checkpoints", "segments"):
                tree = dict(disk.after_cut(data, names))
                what = f"after {number} {operation.kind} {operation.path.name}, data {data}, names lost: {names}"
                found[hash(tuple(sorted(tree.items(), key=lambda item: item[0])))] = State(tree, number, what)
    return list(found.values())


def lay_out(tree: dict[str, bytes | None], target: Path) -> None:
    for path, data in tree.items():
        if data is None:
            (target / path).mkdir(parents=True)
        else:
            (target / path).write_bytes(data)


class Recording(NamedTuple):
    before: Path  # the run as it was
    operations: list[Operation]  # what the session then did to it
    durable: list[tuple[int, int]]  # after how many changes `save` had returned, for which step
    after: Path


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    root = tmp_path_factory.mktemp("power")
    run_dir = new_run(root / "runs")
    advance(run_dir, STEPS[:1])
    before = root / "before" / run_dir.name
    shutil.copytree(run_dir, before)
    operations: list[Operation] = []
    durable: list[tuple[int, int]] = []

    def note(operation: Operation) -> None:
        path, target = operation.path, operation.target
        target = target and before / target.relative_to(run_dir)
        operations.append(Operation(operation.kind, before / path.relative_to(run_dir), target, bytes(operation.data)))

    def save(self, content, *, step, manifest):
        info = original(self, content, step=step, manifest=manifest)
        durable.append((len(operations), step))
        return info

    original = Checkpoints.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "save", save)
        failpoint.restart(note)
        advance(run_dir, STEPS[1:])
        failpoint.restart()
    return Recording(before, operations, durable, run_dir)


def test_every_state_a_power_cut_can_leave(recording, tmp_path):
    every = states(recording.before, recording.operations)
    assert len(every) > 150
    expected = [record[1:] for record in read_metrics(recording.after)]
    resumed_from = set()
    for tree, changes, what in every[:: -(-len(every) // CAP)]:
        run_dir = tmp_path / recording.before.name
        run_dir.mkdir()
        lay_out(tree, run_dir)
        assert RunFolder(run_dir).read_status().id == run_dir.name, what
        reached = newest(run_dir)
        assert reached >= max((step for count, step in recording.durable if count <= changes), default=100), what
        resumed_from.add(reached)

        advance(run_dir, tuple(step for step in STEPS if step > reached))
        assert newest(run_dir) == 300, what
        assert [record[1:] for record in read_metrics(run_dir)] == expected, what
        assert leftovers(run_dir) == [], what
        shutil.rmtree(run_dir)
    assert resumed_from == set(STEPS)
