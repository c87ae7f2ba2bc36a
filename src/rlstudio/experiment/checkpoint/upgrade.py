"""Checkpoints of older versions, written anew in today's: each in its place, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rlstudio.core.contracts import Lease
from rlstudio.core.errors import CheckpointError
from rlstudio.core.version import __version__
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.checkpoint.manifest import OWN, VERSION, CheckpointInfo, checkpoint_steps, read_manifest
from rlstudio.experiment.checkpoint.publishing import Publisher
from rlstudio.experiment.checkpoint.segments import Segments
from rlstudio.experiment.checkpoint.state_hash import state_tree_of
from rlstudio.storage.folder import Folder


class Survey(NamedTuple):
    """The checkpoints of a run as their manifests say, oldest first."""

    outdated: list[CheckpointInfo]
    current: list[CheckpointInfo]
    unreadable: list[str]  # why: damaged, or written by a newer RLStudio


def survey(run_dir: Path, run_id: str) -> Survey:
    """Only the manifests are read."""
    folder, infos, unreadable = Folder(run_dir), [], []
    for step in reversed(checkpoint_steps(folder)):
        try:
            infos.append(read_manifest(folder, step, run_id))
        except CheckpointError as error:
            unreadable.append(str(error))
    outdated = [info for info in infos if info.version < VERSION]
    return Survey(outdated, [info for info in infos if info not in outdated], unreadable)


def upgrade(run_dir: Path, run_id: str, lease: Lease) -> dict[int, tuple[CheckpointInfo, CheckpointInfo]]:
    """What each outdated checkpoint was and is now, by its step; CheckpointError names one that does not verify, and
    those before it are done. The state is another one only where a migration says so; then its hash is as well."""
    folder, checkpoints = Folder(run_dir), Checkpoints(run_dir, run_id, lease)
    publisher = Publisher(folder)
    done: dict[int, tuple[CheckpointInfo, CheckpointInfo]] = {}
    successors: dict[str | None, str] = {}
    for old in survey(run_dir, run_id).outdated:
        content = checkpoints.load(old.step).content
        tree = state_tree_of(content)
        # Names of segments stand for one content along one history only, and these may be of several.
        refs = Segments(folder).put(tree.segments)
        fields = {name: value for name, value in old.fields.items() if name not in OWN}
        fields |= {"version": VERSION, "run_id": run_id, "step": old.step, "token": lease.token}
        fields |= {"parent": successors.get(old.parent, old.parent), "origin": old.origin and vars(old.origin)}
        fields |= {"rlstudio": __version__, "segments": [vars(ref) for ref in refs], "meta": content["meta"]}
        publisher.publish(tree, refs, old.step, fields, lease)
        new = read_manifest(folder, old.step, run_id)
        successors[old.sha256] = new.sha256
        done[old.step] = old, new
    return done
