"""Fork: a new run that begins where a checkpoint of another run stands.

The child gets copies and depends on nothing of its parent, which may lie on another disk, go on training or be removed.
Each copy is read and verified, migrated where it is old, and saved like any other checkpoint, with `origin` naming what
it was copied from. They are saved inside a temporary folder of the child, and one rename makes them its checkpoints: a
crash before it leaves a run without any, whose metrics and segments mean nothing and are removed by the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from rlstudio.core.contracts import Lease
from rlstudio.core.errors import CheckpointError, UserError
from rlstudio.experiment.checkpoint.changed_replay import emptied_if_damaged, for_a_child
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Content, Loaded
from rlstudio.experiment.checkpoint.manifest import OWN, CheckpointInfo, Origin
from rlstudio.experiment.checkpoint.segments import Segments
from rlstudio.experiment.checkpoint.snapshot import naming_misfits
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.reader import copy_metrics
from rlstudio.experiment.metrics.writer import MetricsWriter
from rlstudio.experiment.run.load import choose
from rlstudio.experiment.run.milestones import Milestones
from rlstudio.storage.folder import Folder, temporary


def copy_checkpoint(
    source: RunFolder, checkpoint: str, target: RunFolder, lease: Lease, *, empty_replay: bool = False
) -> CheckpointInfo:
    """The state and the metrics of `source` at `checkpoint` (`last`, `best` or a number of environment steps) as those
    of the new run `target`, which `lease` is of. Whole or not at all; what does not verify is refused by its name.

    With it come the checkpoints that its state goes back to: the best so far, and the one for a run that diverges.
    `empty_replay`: what has a damaged replay is copied without it, and the child is not exact.
    """
    parent = Checkpoints(source.path, source.id, lease=None)
    while True:
        steps = [info.step for info in parent.list()]
        try:
            chosen = choose(parent, source, checkpoint, segments=not empty_replay)
            if empty_replay:
                chosen = emptied_if_damaged(parent, chosen)
            with naming_misfits("what its manifest says of the run"):
                info = _copied(source, chosen, parent, target, lease, empty_replay)
        except CheckpointError as error:
            # A run in training may prune what was just chosen: then choose again.
            if steps == [info.step for info in parent.list()]:
                raise _named(error, source, checkpoint, parent) from error
        else:
            if chosen.replay_damage is not None:
                _mark_emptied(target, info.step, chosen.replay_damage)
            return info


def _named(error: CheckpointError, source: RunFolder, checkpoint: str, parent: Checkpoints) -> CheckpointError:
    """The error with the run that it is of; where nothing but the replay is damaged, with the way to do without it."""
    with suppress(CheckpointError):
        chosen = choose(parent, source, checkpoint, segments=False)
        damage = parent.damaged_segment(chosen.info)
        if damage is not None:
            return type(error)(
                f"fork of run {source.id}: its replay is damaged ({damage}), its weights at {chosen.info.step:,} steps"
                f" are not; fork it with an emptied replay, which is not exact: rlctl fork {source.id} --empty-replay"
            )
    return type(error)(f"fork of run {source.id}: {str(error).removeprefix(f'run {source.id}: ')}")


def _mark_emptied(target: RunFolder, step: int, damage: str) -> None:
    reason = f"forked with an emptied replay: {damage}"
    target.event("replay_emptied", env_steps=step, reason=damage)
    target.write_status(replace(target.read_status(), exact=False, exact_reason=reason))


def _copied(
    source: RunFolder, chosen: Loaded, parent: Checkpoints, target: RunFolder, lease: Lease, empty_replay: bool
) -> CheckpointInfo:
    folder, part = Folder(target.path), temporary(str(lease.token))
    _clear(folder, target, lease)
    try:
        folder.make(part)
        copies = Checkpoints(folder.path(part), target.id, lease)
        for older in _kept(chosen, parent, segments=not empty_replay):
            _save(emptied_if_damaged(parent, older) if empty_replay else older, copies, target.id)
        info = _save(chosen, copies, target.id)
        copy_metrics(Folder(source.path), folder, chosen.info.meta["metrics"]["jsonl"])
        folder.rename(f"{part}/segments", "segments")
        folder.sync()  # what the checkpoints refer to, before they count
        lease.check()
        folder.rename(f"{part}/checkpoints", "checkpoints")
        folder.sync()
    finally:
        folder.discard(part)
    return info


def _clear(folder: Folder, target: RunFolder, lease: Lease) -> None:
    """Refuse a run that has a state; remove what an attempt that failed left in one that has none."""
    if folder.names("checkpoints"):
        raise UserError(f"run {target.id}: it has checkpoints of its own; fork into a new run")
    MetricsWriter(target.path, lease=lease).cut_back(0)
    Segments(folder).collect(set())


def _kept(chosen: Loaded, parent: Checkpoints, segments: bool) -> Iterator[Loaded]:
    """The checkpoints that the chosen state refers to, oldest first, as far as the parent kept them."""
    milestones = Milestones()
    milestones.load_state_dict(chosen.content["trainer_state"]["session"])
    there = {info.step for info in parent.list()} - {chosen.info.step}
    for step in sorted(milestones.keeps() & there):
        yield parent.load(step, segments=segments)


def _save(loaded: Loaded, copies: Checkpoints, run_id: str) -> CheckpointInfo:
    """The same state as a checkpoint of the child. Only the JSON lines are copied: other sinks begin with the child."""
    info, forked = loaded.info, for_a_child(loaded.content)
    meta = forked["meta"]
    meta = {**meta, "run_id": run_id, "metrics": {"jsonl": meta["metrics"]["jsonl"]}}
    content: Content = {**forked, "meta": meta}
    fields = {name: value for name, value in info.fields.items() if name not in OWN}
    if loaded.replay_damage is not None:
        fields |= {"exact": False, "exact_reason": f"forked with an emptied replay: {loaded.replay_damage}"}
    origin = Origin(info.run_id, info.step, info.sha256, info.state_hash)
    return copies.save(content, step=info.step, manifest=fields, origin=origin)
