"""Runs that the store knows: put into the queue, begun, continued. The store learns of a run before its folder appears,
so nothing that was launched can be lost between the two."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Unpack

from rlstudio.control.runs.folders import folder_of, without_addresses
from rlstudio.control.runs.lease import StoreLease, recording_failure
from rlstudio.control.runs.place import check_place
from rlstudio.control.store.records import Consent, RunOrigin, RunRequest, RunRow
from rlstudio.control.store.resources import asked_for
from rlstudio.control.store.store import Fence
from rlstudio.control.workspace import Workspace
from rlstudio.core.config import config_hash, to_yaml
from rlstudio.core.errors import Conflict, RunBusy, RunNotFound
from rlstudio.core.host.portable import require
from rlstudio.core.host.process import this_process, user_name
from rlstudio.core.run_state import Reason, RunState
from rlstudio.delivery.shipping import check_ships
from rlstudio.experiment.config.experiment import ExperimentConfig, new_run
from rlstudio.experiment.config.imports import import_path, module_name, with_files
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.lineage import EVENT, Lineage, lineage, record_lineage
from rlstudio.experiment.run.continuation import Continuation, continuation_of
from rlstudio.experiment.run.notify import Notifier
from rlstudio.experiment.run.run_writer import ResumeTerms
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import Built, build
from rlstudio.experiment.training.environments import refuse_elsewhere

OWNER_VARIABLE = "RLSTUDIO_OWNER"


def request_of(cfg: ExperimentConfig, notify: Sequence[str] = (), **origin: Unpack[RunOrigin]) -> RunRequest:
    """What the store remembers of an experiment; `origin` says where it comes from (parent_id, sweep, ...), `notify`
    is the command that is told how it ended."""
    asked = asked_for(cfg.resources, cfg.runtime.device)
    return RunRequest(
        **vars(new_run(cfg)),
        owner=current_owner(),
        lineage=lineage(),
        imports=with_files(cfg.imports),
        import_path=tuple(import_path()) if cfg.imports else (),
        notify=tuple(notify),
        **asked,
        **origin,
    )


def current_owner() -> str:
    """For whom runs are launched: slots are shared fairly between owners."""
    return os.environ.get(OWNER_VARIABLE) or user_name()


def enqueue(
    workspace: Workspace,
    cfg: ExperimentConfig,
    *,
    key: str | None = None,
    notify: Sequence[str] = (),
    **origin: Unpack[RunOrigin],
) -> RunRow:
    """Put a run into the queue, after everything that can be refused was refused."""
    refuse_elsewhere(cfg.env.id)
    check_place(workspace, cfg.resources)
    check(cfg)
    return workspace.store.create(request_of(cfg, notify, **origin), key=key)


def enqueue_once(workspace: Workspace, experiments: Sequence[ExperimentConfig], *, key: str | None) -> list[RunRow]:
    """Put experiments that differ in their seeds alone into the queue. A key makes them once: where this was killed
    half-way, the same call makes those that are missing."""
    first = experiments[0]
    refuse_elsewhere(first.env.id)
    check_place(workspace, first.resources)
    check(first)
    return [
        workspace.store.create(request_of(cfg), key=key and f"{key}/{place}") for place, cfg in enumerate(experiments)
    ]


def check(cfg: ExperimentConfig) -> None:
    """Refuse everything that can be refused before there is a run."""
    with closing(build(cfg)) as built:
        check_ships(cfg, built.trainer.agent)


def enqueue_seeds(
    workspace: Workspace, experiments: Sequence[ExperimentConfig], *, notify: Sequence[str] = ()
) -> list[RunRow]:
    """Put experiments into the queue that differ in their seeds alone, to be trained from here. What refuses one of
    them refuses all, before the first is there."""
    require(experiments[0].runtime.numerics)
    check(experiments[0])
    return [workspace.store.create(request_of(cfg, notify)) for cfg in experiments]


def take_session(workspace: Workspace, run: RunRow) -> Session | None:
    """A run of the queue in this process; None where somebody else has it meanwhile."""
    try:
        claimed = workspace.store.claim(run.id, this_process(), trains=True)
    except (Conflict, RunNotFound):
        return None
    return serve(workspace, claimed, on_lost=lambda: None)


def start_session(
    workspace: Workspace, cfg: ExperimentConfig, *, notify: Sequence[str] = (), **origin: Unpack[RunOrigin]
) -> Session:
    """A new run in this process."""
    require(cfg.runtime.numerics)
    return begin(workspace, cfg, build(cfg), request_of(cfg, notify, **origin))


def begin(workspace: Workspace, cfg: ExperimentConfig, built: Built, request: RunRequest) -> Session:
    """The new run that was asked for, with parts that were built for it; they are closed if it cannot open."""
    with ExitStack() as unopened:
        unopened.callback(built.close)
        check_ships(cfg, built.trainer.agent)
        run = workspace.store.create(request, owner=this_process())
        with recording_failure(workspace.store, run):
            folder = RunFolder.create(workspace.runs_dir, request, run_id=run.id)
            folder.event(EVENT, **workspace.store.lineage(run.id))
            session = Session.open(folder, cfg, built=built, lease=StoreLease(workspace.store, run, folder.path))
        unopened.pop_all()
    return with_follow_ups(workspace, session)


def resume_session(
    workspace: Workspace,
    run: RunRow,
    overrides: Sequence[str] = (),
    *,
    allow_inexact: bool = False,
    empty_replay: bool = False,
    notify: Sequence[str] = (),
) -> Session:
    """Go on with a run in this process. `notify` replaces the command that it was launched with."""
    refuse_busy(run)
    workspace.import_consented(run)
    folder = folder_of(workspace, run)
    terms = ResumeTerms(allow_inexact, empty_replay, has_checkpoints(workspace, run))
    going = _own(workspace, run, continuation_of(folder, overrides, state=run.state, terms=terms))
    require(going.cfg.runtime.numerics)
    reason, changes = _changes(run, going)
    changes = {**changes, **_columns(_allowed(workspace, run, notify=notify))}
    claimed = workspace.store.resume(run.id, reason, changes=changes, owner=this_process())
    with ExitStack() as opened:  # closed after the failure is recorded: without one, closing records an interruption
        with recording_failure(workspace.store, claimed):
            session = opened.enter_context(going.open(StoreLease(workspace.store, claimed, folder.path)))
            record_again(workspace, session)
        opened.pop_all()
    return with_follow_ups(workspace, session)


def record_again(workspace: Workspace, session: Session) -> None:
    """Where and by which code a run goes on; with other code of its environment it is another experiment from here."""
    if changed := record_lineage(session.folder, lineage_again(workspace, session.folder.id)):
        session.writer.mark_inexact(
            f"at {session.status.env_steps:,} steps the code of its environment changed: {', '.join(changed)}"
        )


def lineage_again(workspace: Workspace, run_id: str) -> Lineage:
    """Of this process; what the run began with, and what it repeats, stay what they were."""
    now, then = lineage(), workspace.store.lineage(run_id)
    if "weights" in then:
        now["weights"] = then["weights"]
    if "reproduces" in then:
        now["reproduces"] = then["reproduces"]
    return now


def requeue(
    workspace: Workspace,
    run: RunRow,
    overrides: Sequence[str] = (),
    *,
    imports: Sequence[str] = (),
    notify: Sequence[str] = (),
    fence: Fence = lambda connection: None,
) -> RunRow:
    """Go on with a run as soon as a worker has room for it; a paused one at its old place in the queue. `imports`:
    modules that the user allows it and this process has imported; they are remembered, since another process opens the
    run. `notify` replaces the command that it was launched with. `fence` raises inside the transaction where this may
    not be done any more."""
    refuse_busy(run)
    refuse_elsewhere(run.env_id)
    workspace.import_consented(run)
    allowed = _allowed(workspace, run, imports, notify)
    if run.is_paused and not overrides:
        if allowed is not None:
            workspace.store.annotate(run.id, consent=allowed, fence=fence)
        return workspace.store.release(run.id, fence)
    reason, changes = _changes(run, continuation_of(folder_of(workspace, run), overrides, state=run.state))
    if run.is_paused:
        changes = {"pause_at": run.pause_at, **changes}
    return workspace.store.resume(run.id, reason, changes={**changes, **_columns(allowed)}, fence=fence)


def notify_of(workspace: Workspace, run: RunRow, notify: Sequence[str]) -> None:
    """Another command for a run that stays in the queue as it is."""
    allowed = _allowed(workspace, run, notify=notify)
    if allowed is not None:
        workspace.store.annotate(run.id, consent=allowed)


def _allowed(
    workspace: Workspace, run: RunRow, imports: Sequence[str] = (), notify: Sequence[str] = ()
) -> Consent | None:
    """What the user allows a run from now on; None where nothing is new."""
    if not imports and not notify:
        return None
    known = workspace.store.consent(run.id)
    if imports:
        modules = tuple(dict.fromkeys(map(module_name, [*known.modules, *imports])))
        known = replace(known, modules=with_files(modules), path=tuple(import_path()))
    return replace(known, notify=tuple(notify) or known.notify)


def _columns(allowed: Consent | None) -> Mapping[str, object]:
    return {} if allowed is None else allowed.as_columns()


def has_checkpoints(workspace: Workspace, run: RunRow) -> bool:
    """Whether the store knows that a run has checkpoints. A child begins with one of its parent's, or with the weights
    of a bundle: without any it would not descend from it."""
    if run.parent_id is not None or workspace.store.checkpoints(run.id):
        return True
    return "weights" in workspace.store.lineage(run.id)


def refuse_busy(run: RunRow) -> None:
    if run.is_owned:
        whose = f"process {run.pid} on {run.host} is writing it"
        raise RunBusy(f"run {run.id}: {whose}; wait for it, or end it with: rlctl stop {run.id}")


def _own(workspace: Workspace, run: RunRow, going: Continuation) -> Continuation:
    """Without the places that the config of somebody else names."""
    if workspace.store.launched_here(run.id):
        return going
    cfg = without_addresses(going.cfg, f"run {run.id}")
    return replace(going, stored=going.stored._replace(cfg=cfg))


def _changes(run: RunRow, going: Continuation) -> tuple[Reason, Mapping[str, object]]:
    if not going.extended:
        return Reason.RESUMED, {}
    cfg = going.cfg
    longer = {"config_yaml": to_yaml(cfg), "config_hash": config_hash(cfg), "total_epochs": cfg.train.epochs}
    return (Reason.EXTENDED if run.state == RunState.COMPLETED else Reason.RESUMED), longer


def serve(workspace: Workspace, run: RunRow, on_lost: Callable[[], None]) -> Session:
    """A claimed run, in the process that was started for it. Its row knows whether it is to go on for longer."""
    with recording_failure(workspace.store, run):
        workspace.import_consented(run)
        folder = folder_of(workspace, run)
        is_extended = run.total_epochs != folder.read_status().total_epochs
        longer = [f"train.epochs={run.total_epochs}"] if is_extended else ()
        terms = ResumeTerms(has_checkpoints=has_checkpoints(workspace, run))
        going = _own(workspace, run, continuation_of(folder, longer, state=run.state, terms=terms))
        session = going.open(StoreLease(workspace.store, run, folder.path, on_lost=on_lost))
        if terms.has_checkpoints:
            record_again(workspace, session)
    return with_follow_ups(workspace, session)


def with_follow_ups(workspace: Workspace, session: Session) -> Session:
    """What else happens at the end of a run. The policy is registered where the experiment asks for it
    (`register.model`): before the run counts as completed, so that a crash in between is made good by resuming it. The
    command that the run was launched with is told."""
    session.writer.notify = Notifier(workspace.store.consent(session.folder.id).notify, session.folder)
    model = session.cfg.register.model
    if model is not None:
        session.finalize = partial(_register, workspace, session, model)
    return session


def _register(workspace: Workspace, session: Session, model: str) -> None:
    from rlstudio.control.registry.releases import Releases

    version = Releases(workspace).register_run(model, session.folder)
    session.folder.event("registered", model=version.model, version=version.version, digest=version.digest)
