"""Checkpoints: the whole state of a run, whole or not at all.

The content has the logical schema of version 2:

    {"version": 2, "module_state": State, "trainer_state": State, "replay_meta": State, "rng_state": State,
     "meta": JSON}

On disk, `checkpoints/step-000000000400/` holds `tensors.safetensors`, `state.json` and `MANIFEST.json` (few files: a
sync costs 12-35 ms), and `segments/` the large blocks that checkpoints share. A checkpoint is written to a temporary
folder, synced and renamed; it is verified to the last byte before anything of it is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import cast

from rlstudio.core.contracts import Lease
from rlstudio.core.errors import CheckpointError, LeaseLost, NoValidCheckpoint
from rlstudio.core.version import __version__
from rlstudio.experiment.checkpoint.loaded import Loaded, NewestGood, Rejected
from rlstudio.experiment.checkpoint.manifest import (
    FILES,
    OWN,
    STATE,
    TENSORS,
    VERSION,
    CheckpointInfo,
    Origin,
    SegmentRef,
    TooNew,
    checkpoint_steps,
    folder_name,
    read_manifest,
    read_manifests,
)
from rlstudio.experiment.checkpoint.migrations import MIGRATIONS, Content, migrated
from rlstudio.experiment.checkpoint.publishing import Publisher
from rlstudio.experiment.checkpoint.segments import Segments
from rlstudio.experiment.checkpoint.state_hash import hash_tree, state_hash, state_tree_of
from rlstudio.storage.folder import Folder
from rlstudio.storage.safetensors_file import read_tensors
from rlstudio.storage.state_tree import Tree, rebuild
from rlstudio.storage.verified import open_verified

__all__ = [
    "MIGRATIONS",
    "CheckpointInfo",
    "Checkpoints",
    "Content",
    "Loaded",
    "NewestGood",
    "Rejected",
    "TooNew",
    "state_hash",
]


class Checkpoints:
    """The checkpoints of one run. Without a lease it only reads."""

    def __init__(self, run_dir: Path, run_id: str, lease: Lease | None) -> None:
        self._folder = Folder(run_dir)
        self._segments = Segments(self._folder)
        self._publisher = Publisher(self._folder)
        self._run_id = run_id
        self._lease = lease
        self._parent: str | None = None
        self._origin: Origin | None = None
        self._saved: int | None = None
        if lease is not None:
            lease.check()
            for name in ("checkpoints", "segments"):
                if self._folder.kind(name) is None:
                    self._folder.make(name)
                self._folder.sweep(name)
            self._publisher.mend()

    # -- writing ----------------------------------------------------------------------------------------------------

    def save(
        self, content: Content, *, step: int, manifest: Mapping[str, object], origin: Origin | None = None
    ) -> CheckpointInfo:
        """Write the state at `step`; `manifest` adds fields of the session (env_steps, topology, exact, ...).

        A forked run begins with a copy, whose `origin` is given; what comes after it has the same.
        The same state at the same step is kept as it is. Where the step holds another state (the run was rolled back
        and took another way) or does not verify, the new one takes its place.
        """
        lease = self._checked_lease()
        if content.get("version") != VERSION:
            raise ValueError(f"the content has version {content.get('version')!r}; this code writes {VERSION}")
        if clash := sorted(OWN & set(manifest)):
            raise ValueError(f"manifest: {', '.join(clash)} is written by the checkpoint itself")
        tree = state_tree_of(content)
        refs = self._segments.put(tree.segments)
        info = self._existing(step, tree, refs)
        if info is None:
            origin = origin or self._origin
            own: dict[str, object] = {"version": VERSION, "run_id": self._run_id, "step": step, "token": lease.token}
            own |= {"parent": self._parent, "origin": origin and vars(origin), "rlstudio": __version__}
            own |= {"segments": [vars(ref) for ref in refs], "meta": content["meta"]}
            self._publisher.publish(tree, refs, step, {**manifest, **own}, lease)
            info = read_manifest(self._folder, step, self._run_id)
        self._stand_at(info)
        self._saved = step
        return info

    def _stand_at(self, info: CheckpointInfo) -> None:
        """What is saved next comes after this one."""
        self._parent, self._origin = info.sha256, info.origin

    def _existing(self, step: int, tree: Tree, refs: Sequence[SegmentRef]) -> CheckpointInfo | None:
        """This very state where the step already holds it, intact."""
        if self._folder.kind(folder_name(step)) is None:
            return None
        try:
            info = read_manifest(self._folder, step, self._run_id)
            if info.state_hash != hash_tree(tree, [ref.sha256 for ref in refs]):
                return None
            with self._verified(info):
                return info
        except CheckpointError:
            return None

    def prune(self, keep_last: int, keep: set[int]) -> None:
        """Keep the newest `keep_last` checkpoints and those at the steps in `keep`; remove the others.

        One that does not verify counts for nothing and goes once it is older than all that are kept. So does one ahead
        of what was saved last: it was rejected when the run was opened, or put there, and the run comes by again.
        Segments that no remaining checkpoint refers to go too.
        """
        if keep_last < 1:
            raise ValueError(f"keep_last must be at least 1, got {keep_last}")
        self._checked_lease()
        steps = self._steps()
        newest = max(steps, default=0) if self._saved is None else self._saved
        readable = [info.step for info in self.list() if info.step <= newest]
        kept = {*readable[:keep_last], *(keep & set(readable))}
        outside = {step for step in steps if not min(kept, default=0) <= step <= newest}
        self._remove(outside | (set(readable) - kept))
        self._collect_segments()

    def discard_after(self, step: int) -> None:
        """Remove every newer checkpoint: the run goes back to this one and takes another way."""
        self._checked_lease()
        self._remove({newer for newer in self._steps() if newer > step})
        # What only they referred to must be forgotten too: on the other way the same names stand for other rows.
        self._collect_segments()
        if not self._steps():
            self._parent = self._origin = None

    def _collect_segments(self) -> None:
        """Remove the segments that no checkpoint refers to; none while one cannot say what it refers to."""
        infos = self.list()
        if len(infos) == len(self._steps()):
            self._segments.collect({ref.sha256 for info in infos for ref in info.segments})

    def _remove(self, steps: set[int]) -> None:
        trash = [self._folder.set_aside(folder_name(step)) for step in sorted(steps)]
        if trash:
            self._folder.sync("checkpoints")  # before their segments can go
        for name in trash:
            self._folder.delete(name)

    def _checked_lease(self) -> Lease:
        if self._lease is None:
            raise LeaseLost(f"{self._folder.root}: opened for reading only")
        self._lease.check()
        return self._lease

    # -- reading ----------------------------------------------------------------------------------------------------

    def _steps(self) -> list[int]:
        return checkpoint_steps(self._folder)

    def list(self) -> list[CheckpointInfo]:
        """What the manifests say, newest first. The data itself is not read; unreadable ones are left out."""
        return read_manifests(self._folder, self._run_id)

    def load(self, step: int, *, segments: bool = True) -> Loaded:
        """The checkpoint at `step`; CheckpointError names the file and the reason when it does not verify. Without
        `segments` only its own files do, which hold all but the rows of a replay: enough to act, not to go on."""
        info = read_manifest(self._folder, step, self._run_id)
        where = folder_name(step)
        with self._verified(info, segments) as files:
            tensors = read_tensors(files[TENSORS], f"{where}/{TENSORS}")
            sections = _parse(files[STATE].read(), f"{where}/{STATE}")
        tree = Tree(sections, tensors, [self._segments.opened(ref) for ref in info.segments])
        state = rebuild(tree, f"{where}/{STATE}") | {"version": info.version, "meta": dict(info.meta)}
        content = migrated(cast("Content", state), where)
        self._segments.adopt(info.segments if segments else ())
        self._stand_at(info)
        return Loaded(content, info)

    def verify(self, step: int) -> CheckpointInfo:
        """The manifest of a checkpoint whose files and segments are all as it says; CheckpointError names what is not.
        Nothing of it is parsed."""
        info = read_manifest(self._folder, step, self._run_id)
        with self._verified(info):
            return info

    def damaged_segment(self, info: CheckpointInfo) -> str | None:
        """Why one of its segments does not verify; None where all do."""
        return self._segments.damage(info.segments)

    @contextmanager
    def _verified(self, info: CheckpointInfo, segments: bool = True) -> Iterator[dict[str, BufferedReader]]:
        """The checkpoint's files, open, after each of them and, if asked for, every segment verified."""
        with ExitStack() as stack:
            where = folder_name(info.step)
            opened = {
                name: stack.enter_context(open_verified(self._folder, f"{where}/{name}", info.files[name]))
                for name in FILES
            }
            for ref in set(info.segments) if segments else ():
                self._segments.verify(ref)
            yield opened

    def newest_good(self, *, segments: bool = True) -> NewestGood | None:
        """The newest checkpoint that verifies (see `load` for `segments`); None where there never was one."""
        rejected: list[Rejected] = []
        for step in self._steps():
            try:
                return NewestGood(self.load(step, segments=segments), rejected)
            except TooNew:
                raise
            except CheckpointError as error:
                rejected.append(Rejected(step, str(error)))
        if not rejected:
            return None
        reasons = "; ".join(reason for _, reason in rejected)
        raise NoValidCheckpoint(f"run {self._run_id}: no checkpoint verifies ({reasons}); restore one from a backup")


def _parse(data: bytes, label: str) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: not JSON: {error}") from error
