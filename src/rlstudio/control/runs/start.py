"""Runs that the store knows: put into the queue, begun, continued. The store learns of a run before its folder appears,
so nothing that was launched can be lost between the two."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rlstudio.control.runs.folders import folder_of
from rlstudio.control.runs.lease import StoreLease, told_if_it_fails
from rlstudio.control.store.records import Request, Run
from rlstudio.control.store.resources import asked_for
from rlstudio.control.workspace import Home
from rlstudio.core.config import config_hash, to_yaml
from rlstudio.core.errors import RunBusy
from rlstudio.core.process import this_process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import ExperimentConfig, new_run
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.lineage import EVENT, lineage
from rlstudio.experiment.run.continuation import Continuation, continuation_of
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import build

OWNER_VARIABLE = "RLSTUDIO_OWNER"


def request_of(cfg: ExperimentConfig, **origin: Any) -> Request:
    """What the store remembers of an experiment; `origin` says where it comes from (parent_id, sweep, ...)."""
    asked = asked_for(cfg.resources, cfg.runtime.device)
    return Request(**vars(new_run(cfg)), owner=current_owner(), lineage=lineage(), **asked, **origin)


def current_owner() -> str:
    """For whom runs are launched: slots are shared fairly between owners."""
    return os.environ.get(OWNER_VARIABLE) or getpass.getuser()


def enqueue(home: Home, cfg: ExperimentConfig, *, key: str | None = None, **origin: Any) -> Run:
    """Put a run into the queue, after everything that can be refused was refused."""
    build(cfg).close()
    return home.store.create(request_of(cfg, **origin), key=key)


def start_session(home: Home, cfg: ExperimentConfig, **origin: Any) -> Session:
    """A new run in this process."""
    built = build(cfg)
    try:
        request = request_of(cfg, **origin)
        run = home.store.create(request, owner=this_process())
        with told_if_it_fails(home.store, run):
            folder = RunFolder.create(home.runs_dir, request, run_id=run.id)
            folder.event(EVENT, **home.store.lineage(run.id))
            lease = StoreLease(home.store, run, folder.path)
    except BaseException:
        built.close()
        raise
    return _with_finalize(home, Session.open(folder, cfg, built=built, lease=lease))


def resume_session(home: Home, run: Run, overrides: Sequence[str] = (), *, allow_inexact: bool = False) -> Session:
    """Go on with a run in this process."""
    refuse_busy(run)
    folder = folder_of(home, run)
    going = continuation_of(folder, overrides, state=run.state, allow_inexact=allow_inexact)
    reason, changes = _changes(run, going)
    claimed = home.store.resume(run.id, reason, changes=changes, owner=this_process())
    with told_if_it_fails(home.store, claimed):
        session = going.open(StoreLease(home.store, claimed, folder.path))
    folder.event(EVENT, **lineage())
    return _with_finalize(home, session)


def requeue(home: Home, run: Run, overrides: Sequence[str] = ()) -> Run:
    """Go on with a run as soon as a worker has room for it."""
    refuse_busy(run)
    reason, changes = _changes(run, continuation_of(folder_of(home, run), overrides, state=run.state))
    return home.store.resume(run.id, reason, changes=changes)


def refuse_busy(run: Run) -> None:
    if run.is_owned:
        whose = f"process {run.pid} on {run.host} is writing it"
        raise RunBusy(f"run {run.id}: {whose}; wait for it, or end it with: rlctl stop {run.id}")


def _changes(run: Run, going: Continuation) -> tuple[Reason, Mapping[str, Any]]:
    if not going.extended:
        return Reason.RESUMED, {}
    cfg = going.cfg
    longer = {"config_yaml": to_yaml(cfg), "config_hash": config_hash(cfg), "total_epochs": cfg.train.epochs}
    return (Reason.EXTENDED if run.state == RunState.COMPLETED else Reason.RESUMED), longer


def serve(home: Home, run: Run, on_lost: Callable[[], None]) -> Session:
    """A claimed run, in the process that was started for it. Its row knows whether it is to go on for longer."""
    with told_if_it_fails(home.store, run):
        folder = folder_of(home, run)
        is_extended = run.total_epochs != folder.read_status().total_epochs
        longer = [f"train.epochs={run.total_epochs}"] if is_extended else ()
        going = continuation_of(folder, longer, state=run.state)
        session = going.open(StoreLease(home.store, run, folder.path, on_lost=on_lost))
    return _with_finalize(home, session)


def _with_finalize(home: Home, session: Session) -> Session:
    """What the experiment wants to happen to its policy: before the run counts as completed, so that a crash in between
    is made good by resuming it."""
    model = session.cfg.register.model
    if model is not None:
        session.finalize = partial(_register, home, session, model)
    return session


def _register(home: Home, session: Session, model: str) -> None:
    from rlstudio.control.registry.releases import Releases

    version = Releases(home).register_run(model, session.folder)
    session.folder.event("registered", model=version.model, version=version.version, digest=version.digest)
