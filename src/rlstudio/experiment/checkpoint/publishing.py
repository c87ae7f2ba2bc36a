"""Writes the folder of a checkpoint: under a temporary name, synced, then renamed into its place."""

from __future__ import annotations

from collections.abc import Sequence

from rlstudio.core.contracts import Lease
from rlstudio.core.errors import StorageError
from rlstudio.experiment.checkpoint.manifest import STATE, TENSORS, SegmentRef, folder_name, manifest_bytes
from rlstudio.experiment.checkpoint.state_hash import combine
from rlstudio.storage.folder import Folder, temporary
from rlstudio.storage.safetensors_file import write_tensors
from rlstudio.storage.state_tree import Tree, to_bytes
from rlstudio.storage.verified import MANIFEST

SWAPPED = ".swapped-"


class Publisher:
    """The folders below `checkpoints/` of one run."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def publish(
        self, tree: Tree, segments: Sequence[SegmentRef], step: int, fields: dict[str, object], lease: Lease
    ) -> None:
        """The state at `step`, in place of what is there; `fields` are those of the manifest."""
        folder, target = self._folder, folder_name(step)
        part = f"checkpoints/{temporary(str(lease.token))}"
        try:
            folder.make(part)
            with folder.stream(f"{part}/{TENSORS}") as writer:
                write_tensors(writer, tree.tensors)
                tensors = writer.finish()
            state = folder.create(f"{part}/{STATE}", to_bytes(tree.json))
            fields["files"] = {TENSORS: tensors._asdict(), STATE: state._asdict()}
            fields["state_hash"] = combine(tensors.sha256, state.sha256, [ref.sha256 for ref in segments])
            folder.create(f"{part}/{MANIFEST}", manifest_bytes(fields))
            folder.sync(part)
            lease.check()
            self._swap_in(part, target)
        except StorageError:
            folder.discard(part)
            raise

    def _swap_in(self, part: str, target: str) -> None:
        """The new folder under its name; an older one of that step steps aside until the new one is safe."""
        folder, aside = self._folder, target.replace("/", f"/{SWAPPED}")
        old = folder.kind(target) is not None
        if old:
            folder.discard(aside)
            folder.rename(target, aside)
        try:
            folder.rename(part, target)
        except StorageError:
            if old:
                folder.rename(aside, target)
            raise
        folder.sync("checkpoints")
        if old:
            folder.delete(aside)

    def mend(self) -> None:
        """A crash in the middle of a swap left the older folder of a step aside: it takes its place again."""
        for name in self._folder.names("checkpoints"):
            if name.startswith(SWAPPED):
                aside, target = f"checkpoints/{name}", f"checkpoints/{name.removeprefix(SWAPPED)}"
                if self._folder.kind(target) is None:
                    self._folder.rename(aside, target)
                else:
                    self._folder.delete(aside)
