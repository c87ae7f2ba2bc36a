"""Fork: a child run that begins where a checkpoint of its parent stands, with settings of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from typing import Unpack

from rlstudio.control.runs.folders import folder_of, without_addresses
from rlstudio.control.runs.lease import StoreLease, recording_failure
from rlstudio.control.runs.remove import remove
from rlstudio.control.runs.start import check, request_of, with_follow_ups
from rlstudio.control.store.records import RunRequest, RunRow, SweepOrigin
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import CheckpointError, Incompatible, OtherEnvironments, UserError
from rlstudio.core.host.portable import require
from rlstudio.core.host.process import is_gone, this_process
from rlstudio.core.run_state import Reason
from rlstudio.experiment.config.experiment import LONGEST_NAME, ExperimentConfig
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
    key: str | None = None,
    notify: Sequence[str] = (),
    **origin: Unpack[SweepOrigin],
) -> Session:
    """The child, ready to train. What does not fit leaves nothing behind. `empty_replay`: without the parent's replay
    if that is damaged. `key`: as `Store.create` takes it. `notify`: the command of the child; its parent's is its
    parent's alone. `origin`: its sweep and trial. Without `name=...` among the overrides the child gets a name of its
    own: its parent's goes on to mean its parent."""
    workspace.import_consented(parent)
    source = folder_of(workspace, parent)
    own = [] if is_named(overrides) else [f"name={json.dumps(free_name(workspace, parent.name))}"]
    cfg = read_config(source, [*overrides, *own])
    if not workspace.store.launched_here(parent.id):
        cfg = without_addresses(cfg, f"run {parent.id}", overrides)
    require(cfg.runtime.numerics)
    if cfg.register.model is not None:
        check(cfg)
    request = request_of(cfg, notify, parent_id=parent.id, **origin)
    return begun_at(workspace, request, cfg, source, checkpoint, overrides, empty_replay=empty_replay, key=key)


def begun_at(
    workspace: Workspace,
    request: RunRequest,
    cfg: ExperimentConfig,
    source: RunFolder,
    checkpoint: str,
    overrides: Sequence[str] = (),
    *,
    empty_replay: bool = False,
    key: str | None = None,
) -> Session:
    """The new run that was asked for, from a checkpoint of another; it leaves nothing behind if it cannot begin."""
    child = workspace.store.create(request, owner=this_process(), key=key)
    with recording_failure(workspace.store, child):
        folder = folder_of(workspace, child)
        lease = StoreLease(workspace.store, child, folder.path)
    try:
        info = copy_checkpoint(source, checkpoint, folder, lease, empty_replay=empty_replay)
        workspace.store.set_origin(child.id, child.token, info.step)
        epoch = info.epoch
        if epoch >= cfg.train.epochs:
            raise UserError(
                f"fork of run {source.id}: it has done {epoch} epochs at {info.step:,} steps and train.epochs is"
                f" {cfg.train.epochs}; give it more with train.epochs={2 * epoch}"
            )
        return with_follow_ups(workspace, _opened(folder, cfg, lease, " ".join(overrides)))
    except BaseException:
        lease.release()
        folder.remove()
        workspace.store.remove(child.id)
        raise


def is_named(overrides: Sequence[str]) -> bool:
    """Whether they give the child a name."""
    return any(override.partition("=")[0] == "name" for override in overrides)


def free_name(workspace: Workspace, parent: str, word: str = "fork") -> str:
    """`NAME-fork`, `NAME-fork2`, ...: the first that no run has; the same for a fork of a fork."""
    taken, base = workspace.references().groups, re.sub(rf"-{word}[0-9]*\Z", "", parent)
    endings = (f"-{word}{'' if number == 1 else number}" for number in count(1))
    names = (f"{base[: LONGEST_NAME - len(ending)]}{ending}" for ending in endings)
    return next(name for name in names if name not in taken)


def _opened(folder: RunFolder, cfg: ExperimentConfig, lease: StoreLease, changed: str) -> Session:
    """Another number of environments or threads is what a fork may be for: it is recorded, not refused."""
    try:
        return Session.open(folder, cfg, lease=lease, terms=ResumeTerms(allow_inexact=True))
    except (CheckpointError, OtherEnvironments) as error:
        raise Incompatible(f"fork with {changed}: {error}; such a change needs a new run") from error


def fork_later(
    workspace: Workspace,
    parent: RunRow,
    checkpoint: str = "last",
    overrides: Sequence[str] = (),
    *,
    empty_replay: bool = False,
    key: str | None = None,
    notify: Sequence[str] = (),
) -> RunRow:
    """The child in the queue. A `key` makes it once; what a process that was killed left half-made is made anew."""
    refuse_elsewhere(parent.env_id)
    known = None if key is None else workspace.store.run_of_key(key)
    if known is not None:
        if known.is_managed or (known.is_owned and not is_gone(known.process)):
            return known
        workspace.reap()
        remove(workspace, workspace.find(known.id))
    child = fork(workspace, parent, checkpoint, overrides, empty_replay=empty_replay, key=key, notify=notify)
    return queued(workspace, child)


def queued(workspace: Workspace, session: Session) -> RunRow:
    """A run that was opened here goes into the queue instead."""
    session.close()
    return workspace.store.resume(session.folder.id, Reason.RESUMED)
