"""The right to write a run: a lock on `.lock`, held for the life of the process, and a record of who has it.

The lock keeps a second process out. The record fences a writer that lost the lock without noticing (a folder moved
away, a network disk that forgot it): its number grows with each owner, and `check` compares it before every commit.
"""

from __future__ import annotations

import json
import os
import secrets
import weakref
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rlstudio.core.errors import FilesClosed, LeaseLost, RunBusy, StorageError
from rlstudio.core.host.process import call_in_children, this_process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.storage.descriptors import Opened
from rlstudio.storage.folder import Folder, is_directory

if TYPE_CHECKING:
    from rlstudio.core.contracts import State

LOCK, RECORD = ".lock", "lease.json"
LARGEST_RECORD = 1 << 16

_held: weakref.WeakSet[FileLease] = weakref.WeakSet()


class FileLease:
    """Implements `core.contracts.Lease` for a run that only its folder records. Taking it also removes what crashes
    left there.

    `seize`: the caller (`control.runs.lease`) knows from the store that the run is ours. A process that still holds the
    lock is frozen or was given up; the lock file is replaced, and the next `check` of that process raises LeaseLost.
    """

    def __init__(self, run_dir: Path, *, seize: bool = False) -> None:
        self._folder = Folder(run_dir)
        descriptor = self._folder.lock(LOCK)
        if descriptor is None and seize:
            self._folder.discard(LOCK)
            descriptor = self._folder.lock(LOCK)
        if descriptor is None:
            raise RunBusy(_busy(run_dir, read_record(self._folder)))
        self._lock: Opened | None = Opened.of(descriptor)
        try:
            self._folder.sweep()
            before = read_record(self._folder).get("token")
            self.token = (before if isinstance(before, int) else 0) + 1
            # The nonce tells two owners apart even after the counter was lost with a damaged record.
            record = {"token": self.token, "nonce": secrets.token_hex(8), **asdict(this_process())}
            self._record = json.dumps(record, sort_keys=True).encode()
            self._folder.replace(RECORD, self._record)
        except BaseException:
            self.release()
            raise
        call_in_children(_release_all)
        _held.add(self)

    def check(self) -> None:
        """Cheap enough for every commit: one small read and two looks at the lock file."""
        if self._lock is None:
            raise LeaseLost(f"{self._folder.root}: this process has released the run and may write nothing more")
        if not is_directory(self._folder.root):
            raise StorageError(
                f"{self._folder.root}: the folder of the run is gone: it was moved or removed, or its disk is away;"
                f" put it back and go on with: rlctl resume {self._folder.root.name}"
            )
        is_closed = not self._lock.is_ours
        if self._folder.read(RECORD, limit=LARGEST_RECORD) != self._record or not (
            self._lock_again() if is_closed else self._is_in_place()
        ):
            raise LeaseLost(f"{self._folder.root}: {_taken(read_record(self._folder))}; writing nothing more")
        if is_closed:
            raise FilesClosed(f"{self._folder.path(LOCK)}: was closed by other code in this process")

    def _is_in_place(self) -> bool:
        """Whether the file that we have locked is the one that others look at."""
        try:
            there = os.stat(self._folder.path(LOCK), follow_symlinks=False)
        except FileNotFoundError:
            return False
        return self._lock is not None and (there.st_dev, there.st_ino) == self._lock[1:]

    def _lock_again(self) -> bool:
        """After other code closed the lock, so that the end of the run can still be recorded."""
        descriptor = self._folder.lock(LOCK)
        if descriptor is not None:
            self._lock = Opened.of(descriptor)
        return descriptor is not None

    def move(self, state: RunState, reason: Reason, message: str, facts: State) -> tuple[RunState, Reason]:
        self.check()
        return state, reason

    def safe_point(self) -> bool:
        return False

    def tell(self, facts: State) -> None:
        """Does nothing: the folder has its own status."""

    def publish(self, checkpoints: Sequence[State]) -> None:
        """Does nothing: the folder has its own checkpoints."""

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> FileLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def read_record(folder: Folder) -> dict[str, object]:
    """The process that took the run last; empty where there is no record or it is damaged."""
    try:
        record = json.loads(folder.read(RECORD, limit=LARGEST_RECORD) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _owner(record: dict[str, object]) -> str:
    return f"process {record.get('pid', '?')} on {record.get('host', 'an unknown host')}"


def _taken(record: dict[str, object]) -> str:
    return f"{_owner(record)} took the run" if record else f"{RECORD}, which says whose the run is, was removed"


def _busy(run_dir: Path, record: dict[str, object]) -> str:
    return f"run {run_dir.name}: {_owner(record)} is writing it; wait for it, or end it with: rlctl stop {run_dir.name}"


def _release_all() -> None:
    """A forked child shares the lock's descriptor and would hold the run after its parent is killed."""
    for lease in list(_held):
        lease.release()
