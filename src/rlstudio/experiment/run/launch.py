"""Start or continue a run: from a config to a Session that is ready to iterate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlstudio.core.config import config_hash, to_yaml
from rlstudio.core.contracts import Lease, VecEnv
from rlstudio.core.errors import ConfigError, Incompatible, UserError
from rlstudio.core.run_state import RunState
from rlstudio.core.yaml_file import read_file
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.load import read_config
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import build_env, build_trainer
from rlstudio.experiment.training.machine import pick_device, set_threads


def rehearse(cfg: ExperimentConfig) -> VecEnv:
    """Everything that can be refused is refused here, before a run appears; returns its environments."""
    set_threads(cfg.runtime.threads)
    env = build_env(cfg)
    try:
        build_trainer(cfg, env, pick_device(cfg.runtime.device))
    except BaseException:
        env.close()
        raise
    return env


def start(cfg: ExperimentConfig, runs_dir: Path) -> Session:
    """A new run that only its folder knows; `control` has runs that a store remembers."""
    env = rehearse(cfg)
    try:
        folder = create_folder(cfg, runs_dir)
    except BaseException:
        env.close()
        raise
    return Session.open(folder, cfg, env=env)


def create_folder(cfg: ExperimentConfig, runs_dir: Path, run_id: str | None = None) -> RunFolder:
    return RunFolder.create(
        runs_dir,
        name=cfg.name,
        algo=cfg.policy.algo,
        env_id=cfg.env.id,
        config_yaml=to_yaml(cfg),
        config_hash=config_hash(cfg),
        seed=cfg.env.seed,
        total_epochs=cfg.train.epochs,
        run_id=run_id,
    )


@dataclass(frozen=True)
class Continuation:
    """A run that may go on, judged before anything is taken or changed."""

    folder: RunFolder
    cfg: ExperimentConfig
    edited: bool  # its config.yaml is not what it was launched with, and that was accepted
    extended: bool  # it goes on longer than it was launched for
    allow_inexact: bool

    def open(self, lease: Lease | None = None) -> Session:
        session = Session.open(self.folder, self.cfg, lease=lease, allow_inexact=self.allow_inexact)
        if self.edited:
            session.keeper.mark_inexact("config.yaml was edited")
            session.keeper.tell(config_hash=_stored_hash(self.folder, self.cfg))
        if self.extended:
            session.extend(to_yaml(self.cfg), config_hash(self.cfg))
        return session


def resume(folder: RunFolder, overrides: Sequence[str] = (), *, allow_inexact: bool = False) -> Session:
    """Continue a run where its newest good checkpoint left it; `train.epochs=N` extends it."""
    return continuation(folder, overrides, allow_inexact=allow_inexact).open()


def continuation(folder: RunFolder, overrides: Sequence[str] = (), *, allow_inexact: bool = False) -> Continuation:
    for override in overrides:
        if not override.startswith("train.epochs="):
            raise ConfigError(
                f"override {override}: only train.epochs can change on resume; launch a new run to change anything else"
            )
    cfg = read_config(folder, overrides)
    status = folder.read_status()
    if status.state == RunState.COMPLETED and cfg.train.epochs <= status.epoch:
        raise UserError(
            f"run {folder.id}: it completed its {status.epoch} epochs;"
            f" extend it with: rlctl resume {folder.id} train.epochs={2 * status.epoch}"
        )
    if cfg.train.epochs < status.epoch:
        raise UserError(f"run {folder.id}: train.epochs={cfg.train.epochs}, but it has done {status.epoch} already")
    edited = status.config_hash not in ("", _stored_hash(folder, _lasting(cfg, status.total_epochs)))
    if edited and not allow_inexact:
        raise Incompatible(
            f"{folder.config_path}: is not what the run was launched with; put it back and launch a new run to change"
            " anything, or accept it with --allow-inexact"
        )
    return Continuation(folder, cfg, edited, cfg.train.epochs != status.total_epochs, allow_inexact)


def _stored_hash(folder: RunFolder, cfg: ExperimentConfig) -> str:
    """The hash of what stands in the run's file, which may be older than this RLStudio."""
    return config_hash(cfg, read_file(folder.config_path).data)


def _lasting(cfg: ExperimentConfig, epochs: int) -> ExperimentConfig:
    """The same experiment over so many epochs: the one thing that may change between two sessions of a run."""
    return cfg.model_copy(update={"train": cfg.train.model_copy(update={"epochs": epochs})})
