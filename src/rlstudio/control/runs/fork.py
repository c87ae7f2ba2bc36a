"""Fork: a child run that begins where a checkpoint of its parent stands, with settings of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from rlstudio.control.runs.folders import folder_of
from rlstudio.control.runs.lease import StoreLease, recording_failure
from rlstudio.control.runs.start import request_of, with_registration
from rlstudio.control.store.records import RunRow, SweepOrigin
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import CheckpointError, Incompatible, UserError
from rlstudio.core.host.portable import require
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import Reason
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.fork import copy_checkpoint
from rlstudio.experiment.run.load import read_config
from rlstudio.experiment.run.run_writer import ResumeTerms
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.environments import refuse_elsewhere


def fork(
    workspace: Workspace,
    parent: RunRow,
    checkpoint: str = "last",
    overrides: Sequence[str] = (),
    *,
    empty_replay: bool = False,
    **origin: Unpack[SweepOrigin],
) -> Session:
    """The child, ready to train. What does not fit leaves nothing behind. `empty_replay`: without the parent's replay
    if that is damaged. `origin`: its sweep and trial."""
    workspace.import_consented(parent)
    source = folder_of(workspace, parent)
    cfg = read_config(source, overrides)
    require(cfg.runtime.numerics)
    child = workspace.store.create(request_of(cfg, parent_id=parent.id, **origin), owner=this_process())
    with recording_failure(workspace.store, child):
        folder = folder_of(workspace, child)
        lease = StoreLease(workspace.store, child, folder.path)
    try:
        info = copy_checkpoint(source, checkpoint, folder, lease, empty_replay=empty_replay)
        workspace.store.set_origin(child.id, child.token, info.step)
        epoch = info.epoch
        if epoch >= cfg.train.epochs:
            raise UserError(
                f"fork of run {parent.id}: it has done {epoch} epochs at {info.step:,} steps and train.epochs is"
                f" {cfg.train.epochs}; give it more with train.epochs={2 * epoch}"
            )
        return with_registration(workspace, _opened(folder, cfg, lease, " ".join(overrides)))
    except BaseException:
        lease.release()
        folder.remove()
        workspace.store.remove(child.id)
        raise


def _opened(folder: RunFolder, cfg: ExperimentConfig, lease: StoreLease, changed: str) -> Session:
    """Another number of environments or threads is what a fork may be for: it is recorded, not refused."""
    try:
        return Session.open(folder, cfg, lease=lease, terms=ResumeTerms(allow_inexact=True))
    except CheckpointError as error:
        raise Incompatible(f"fork with {changed}: {error}; such a change needs a new run") from error


def fork_later(
    workspace: Workspace,
    parent: RunRow,
    checkpoint: str = "last",
    overrides: Sequence[str] = (),
    *,
    empty_replay: bool = False,
) -> RunRow:
    """The child in the queue."""
    refuse_elsewhere(parent.env_id)
    session = fork(workspace, parent, checkpoint, overrides, empty_replay=empty_replay)
    session.close()
    return workspace.store.resume(session.folder.id, Reason.RESUMED)
