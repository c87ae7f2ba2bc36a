"""Load a trained agent from its run and act with it:

from rlstudio import load_agent

agent = load_agent("runs/20261115-093012123456-ppo-cartpole-v1-3f2a")
action = agent.act(observation)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rlstudio.agents.agent import Agent
from rlstudio.core.config import Stored, config_hash
from rlstudio.core.errors import NoValidCheckpoint, RunNotFound, UserError
from rlstudio.core.model.protocol import Weights
from rlstudio.core.parsing.yaml_file import read_file
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Loaded
from rlstudio.experiment.checkpoint.manifest import folder_name
from rlstudio.experiment.checkpoint.names import BEST, LAST, best_step
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.config.imports import require_imported
from rlstudio.experiment.folder.run_folder import RUN_ID, RunFolder
from rlstudio.experiment.run.checkpoint_agent import agent_of, team_agent_of
from rlstudio.experiment.training.machine import set_threads
from rlstudio.storage.folder import Folder


class LoadedAgent(NamedTuple):
    agent: Agent
    cfg: ExperimentConfig
    checkpoint: Loaded
    reward_scale: float = 1.0  # what rewards were divided by in training, and the agent's value with them

    @property
    def learned(self) -> Mapping[str, Weights]:
        """The weights of all Models of the run, by name: also of those that only learning needs, such as critics."""
        return self.checkpoint.content["module_state"]

    @property
    def env_steps(self) -> int:
        return self.checkpoint.info.step


def load_agent(run: str | Path, checkpoint: str = "last") -> Agent:
    """The agent of the run folder at a path; `checkpoint` is `last`, `best` or a number of environment steps. Import
    the modules that its environment needs first: only the store knows what a run was launched with."""
    folder = RunFolder(Path(run))
    if not RUN_ID.fullmatch(folder.id) or not folder.exists:
        newest = 'orchestrator.get("last").agent()'
        raise RunNotFound(
            f"{str(run)!r}: is not the folder of a run; `rlctl ls` lists them, and {newest} takes the newest"
        )
    return load_run(folder, checkpoint).agent


def load_run(folder: RunFolder, checkpoint: str = "last", team: str | None = None) -> LoadedAgent:
    """The agent, or that of one team, with the config of the run. Nothing of the run is changed, and it may be training
    meanwhile. The rows of a replay are not read: acting needs none of them, and they may be damaged or missing."""
    cfg = read_config(folder)
    set_threads(cfg.runtime.threads)
    loaded = choose(Checkpoints(folder.path, folder.id, lease=None), folder, checkpoint, segments=False)
    agent, reward_scale = agent_of(cfg, loaded) if team is None else team_agent_of(cfg, loaded, team)
    return LoadedAgent(agent, cfg, loaded, reward_scale)


class StoredConfig(NamedTuple):
    """The config of a run, and what stands in its file, which an older RLStudio may have written."""

    cfg: ExperimentConfig
    data: Stored

    def hash_of(self, cfg: ExperimentConfig) -> str:
        """The hash that the version which wrote the file would give: fields retired since count as they stand there."""
        return config_hash(cfg, self.data)


def read_stored(folder: RunFolder, overrides: Sequence[str] = ()) -> StoredConfig:
    """The run's config. Modules that it names must be imported already: a folder cannot have one imported."""
    document = read_file(folder.config_path)
    require_imported(document)
    return StoredConfig(experiment_from(document, overrides=overrides, stored=True), document.data)


def read_config(folder: RunFolder, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """The run's own config; see `read_stored`."""
    return read_stored(folder, overrides).cfg


def choose(checkpoints: Checkpoints, folder: RunFolder, which: str | int, *, segments: bool = True) -> Loaded:
    """The checkpoint of this name: `last` (that verifies), `best` or a number of environment steps. `segments`: those
    verify too, which only a run that goes on needs."""
    which = str(which)
    if which == LAST:
        return _newest(checkpoints, folder, segments)
    if which == BEST:
        best = _best_step(checkpoints, folder)
        if best is None:
            raise UserError(
                f"run {folder.id}: no `best` checkpoint yet: it is chosen at the first evaluation during training"
                " (eval.every_epochs); use `last`"
            )
        return checkpoints.load(best, segments=segments)
    is_step = which.isascii() and which.isdigit() and len(which) < 20
    if is_step and Folder(folder.path).kind(folder_name(int(which))) is not None:
        return checkpoints.load(int(which), segments=segments)  # also one that cannot be listed: its damage is named
    names = [LAST, *([BEST] if _best_step(checkpoints, folder) is not None else [])]
    there = ", ".join([*names, *map(str, _steps(checkpoints))])
    raise UserError(f"run {folder.id}: no checkpoint {which!r}; it has: {there}")


def _best_step(checkpoints: Checkpoints, folder: RunFolder) -> int | None:
    """The step of the best checkpoint so far, if it was kept; NoValidCheckpoint where the run has none at all."""
    infos = checkpoints.list()
    if not infos:
        raise _none_yet(folder)
    return best_step(Folder(folder.path), infos)


def _newest(checkpoints: Checkpoints, folder: RunFolder, segments: bool) -> Loaded:
    """The newest good checkpoint. A run in training may prune what was just listed: then look again."""
    while True:
        steps = _steps(checkpoints)
        try:
            newest = checkpoints.newest_good(segments=segments)
        except NoValidCheckpoint:
            if _steps(checkpoints) == steps:
                raise
            continue
        if newest is None:
            raise _none_yet(folder)
        newest.name_rejected(folder.id)
        return newest.loaded


def _none_yet(folder: RunFolder) -> NoValidCheckpoint:
    return NoValidCheckpoint(f"run {folder.id}: it has no checkpoint yet; let it train a while")


def _steps(checkpoints: Checkpoints) -> list[int]:
    return [info.step for info in checkpoints.list()]
