"""A model of a disk that loses power: what was not synced may be there, be lost, or be there in part, and names may
survive without their data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rlstudio.storage.failpoint import Operation


@dataclass
class File:
    data: bytes = b""
    synced: bytes = b""
    unsynced: list[tuple[int, bytes]] = field(default_factory=list)  # writes: where, and what; nothing: cut there

    def write(self, data: bytes, place: int | None) -> None:
        self.unsynced.append((len(self.data) if place is None else place, data))
        self.data = _written(self.data, self.unsynced[-1:])

    def sync(self) -> None:
        self.synced, self.unsynced = self.data, []

    def after_cut(self, data: str) -> bytes:
        """Of the writes since the last sync all, none, or the first half and half of the one after it."""
        if data != "half":
            return {"kept": self.data, "lost": self.synced}[data]
        half = len(self.unsynced) // 2
        torn = [(place, part[: len(part) // 2]) for place, part in self.unsynced[half : half + 1] if len(part) > 1]
        return _written(self.synced, [*self.unsynced[:half], *torn])


def _written(data: bytes, writes: list[tuple[int, bytes]]) -> bytes:
    for place, part in writes:
        data = data[:place].ljust(place, b"\0") + (part + data[place + len(part) :] if part else b"")
    return data


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
                if operation.data or hasattr(operation, "place"):
                    file = parent.entries.setdefault(name, File())  # the store's own is made without a failpoint
                    file.write(bytes(operation.data), getattr(operation, "place", None))
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
                    node.sync()

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


ANY_FOLDER = ("none", "all", "root", "checkpoints", "segments")


def states(begun: Path, operations: list[Operation], folders: tuple[str, ...] = ANY_FOLDER) -> list[State]:
    """All different ones; of equal ones the latest, which has the most to keep."""
    disk = Disk(begun)
    found: dict[int, State] = {}
    for number, operation in enumerate(operations, start=1):
        disk.apply(operation)
        for data in ("kept", "lost", "half"):
            for names in folders:
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
