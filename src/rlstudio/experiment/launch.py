"""Start or continue a run: from a config to a Session that is ready to iterate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlstudio.core.config import config_hash, to_yaml
from rlstudio.core.errors import ConfigError, Incompatible, UserError
from rlstudio.experiment.build import build_env, build_trainer
from rlstudio.experiment.config import ExperimentConfig
from rlstudio.experiment.load import read_config
from rlstudio.experiment.machine import pick_device, set_threads
from rlstudio.experiment.run_folder import RunFolder
from rlstudio.experiment.session import Session
from rlstudio.experiment.status import RunState


def start(cfg: ExperimentConfig, runs_dir: Path) -> Session:
    """A new run. Everything that can be refused is refused before its folder appears."""
    set_threads(cfg.runtime.threads)
    env = build_env(cfg)
    try:
        build_trainer(cfg, env, pick_device(cfg.runtime.device))
        folder = RunFolder.create(
            runs_dir,
            name=cfg.name,
            algo=cfg.policy.algo,
            env_id=cfg.env.id,
            config_yaml=to_yaml(cfg),
            config_hash=config_hash(cfg),
            seed=cfg.env.seed,
            total_epochs=cfg.train.epochs,
        )
    except BaseException:
        env.close()
        raise
    return Session.open(folder, cfg, env=env)


def resume(folder: RunFolder, overrides: Sequence[str] = (), *, allow_inexact: bool = False) -> Session:
    """Continue a run where its newest good checkpoint left it; `train.epochs=N` extends it."""
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
    edited = status.config_hash not in ("", config_hash(_lasting(cfg, status.total_epochs)))
    if edited and not allow_inexact:
        raise Incompatible(
            f"{folder.config_path}: is not what the run was launched with; put it back and launch a new run to change"
            " anything, or accept it with --allow-inexact"
        )
    session = Session.open(folder, cfg, allow_inexact=allow_inexact)
    if edited:
        session.keeper.mark_inexact("config.yaml was edited")
        session.keeper.tell(config_hash=config_hash(cfg))
    if cfg.train.epochs != status.total_epochs:
        session.extend(to_yaml(cfg), config_hash(cfg))
    return session


def _lasting(cfg: ExperimentConfig, epochs: int) -> ExperimentConfig:
    """The same experiment over so many epochs: the one thing that may change between two sessions of a run."""
    return cfg.model_copy(update={"train": cfg.train.model_copy(update={"epochs": epochs})})
