"""Go on with a run that is there: whether it may, and the Session that continues it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from rlstudio.core.config import config_hash, to_yaml
from rlstudio.core.contracts import Lease
from rlstudio.core.errors import ConfigError, Incompatible, UserError
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.failures import recording_failed_opening
from rlstudio.experiment.run.load import StoredConfig, read_stored
from rlstudio.experiment.run.run_writer import STRICT, ResumeTerms
from rlstudio.experiment.run.session import Session

EARLY_ENDS = {Reason.GOAL: "gates.stop_at=null", Reason.PLATEAU: "gates.plateau=null"}
"""Why a run was completed before its last epoch, and what a fork that trains on leaves out."""


@dataclass(frozen=True)
class Continuation:
    """A run that may go on; nothing of it is taken or changed until it is opened."""

    folder: RunFolder
    stored: StoredConfig
    edited: bool  # its config.yaml is not what it was launched with, and that was accepted
    extended: bool  # it goes on longer than it was launched for
    terms: ResumeTerms

    @property
    def cfg(self) -> ExperimentConfig:
        return self.stored.cfg

    def open(self, lease: Lease | None = None) -> Session:
        with ExitStack() as opened:
            session = Session.open(self.folder, self.cfg, lease=lease, terms=self.terms)
            opened.callback(session.close)
            with recording_failed_opening(self.folder, session.writer.lease):
                self._write_changes(session)
            opened.pop_all()
        return session

    def _write_changes(self, session: Session) -> None:
        if self.edited:
            session.writer.mark_inexact("config.yaml was edited")
            session.writer.update(config_hash=self.stored.hash_of(self.cfg))
        if self.extended:
            self.folder.write_config(to_yaml(self.cfg))
            session.writer.update(config_hash=config_hash(self.cfg), total_epochs=self.cfg.train.epochs)
            self.folder.event("extended", total_epochs=self.cfg.train.epochs, env_steps=session.status.env_steps)


def continuation_of(
    folder: RunFolder,
    overrides: Sequence[str] = (),
    *,
    state: RunState | None = None,
    terms: ResumeTerms = STRICT,
) -> Continuation:
    """What can be refused is refused here; nothing is written. `state` is the store's, which counts more than the
    folder's: a process that died may not have written its last one."""
    for override in overrides:
        if not override.startswith("train.epochs="):
            raise ConfigError(
                f"override {override}: only train.epochs can change on resume; launch a new run to change anything else"
            )
    stored = read_stored(folder, overrides)
    cfg = stored.cfg
    status = folder.read_status()
    if (state or status.state) == RunState.COMPLETED and status.reason in EARLY_ENDS:
        what = f"it {status.message}" if status.reason == Reason.GOAL else status.message
        again = f"rlctl fork {folder.id} {EARLY_ENDS[status.reason]}"
        raise UserError(f"run {folder.id}: {what}; train on from there with: {again}")
    if (state or status.state) == RunState.COMPLETED and cfg.train.epochs <= status.epoch:
        raise UserError(
            f"run {folder.id}: it completed its {status.epoch} epochs;"
            f" extend it with: rlctl resume {folder.id} train.epochs={2 * status.epoch}"
        )
    if cfg.train.epochs < status.epoch:
        raise UserError(f"run {folder.id}: train.epochs={cfg.train.epochs}, but it has done {status.epoch} already")
    edited = status.config_hash not in ("", stored.hash_of(lasting(cfg, status.total_epochs)))
    if edited and not terms.allow_inexact:
        raise Incompatible(
            f"{folder.config_path}: is not what the run was launched with; put it back and launch a new run to change"
            " anything, or accept it with --allow-inexact"
        )
    extended = cfg.train.epochs != status.total_epochs
    return Continuation(folder, stored, edited, extended, terms)


def lasting(cfg: ExperimentConfig, epochs: int) -> ExperimentConfig:
    """The same experiment over so many epochs: the one thing that may change between two sessions of a run."""
    return cfg.model_copy(update={"train": cfg.train.model_copy(update={"epochs": epochs})})
