"""From the arguments of `launch` to experiments: a file, a preset or an algorithm's defaults, with overrides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlstudio.core.errors import ConfigError, UserError

if TYPE_CHECKING:
    from rlstudio.core.parsing.yaml_file import Document
    from rlstudio.experiment.config.experiment import ExperimentConfig


@dataclass(frozen=True)
class ExperimentRequest:
    """What was asked for."""

    file: str | None = None
    algo: str | None = None
    env_id: str | None = None
    overrides: Sequence[str] = ()
    imports: Sequence[str] = ()
    name: str | None = None
    seed: int | None = None
    seeds: int = 1

    def all_overrides(self) -> list[str]:
        """In the order in which they win: later ones replace earlier ones."""
        given = [f"name={json.dumps(self.name)}"] if self.name is not None else []
        given += [f"env.seed={self.seed}"] if self.seed is not None else []
        return [*self.overrides, *given]


@dataclass(frozen=True)
class Chosen:
    """The experiments, one per seed, and in words where they come from."""

    experiments: list[ExperimentConfig]
    origin: str


def choose(request: ExperimentRequest) -> Chosen:
    """Everything is validated before the first run starts, also the last of the seeds."""
    from rlstudio.experiment.config.experiment import experiment_from

    _refuse_mistaken_files(request)
    document, origin, is_file = _document(request)
    overrides = request.all_overrides()
    first = experiment_from(document, overrides=overrides, imports=request.imports)
    if not is_file:
        overrides = _steps_of_all_agents(first, overrides)
        first = experiment_from(document, overrides=overrides, imports=request.imports)
    experiments = [first]
    for offset in range(1, request.seeds):
        seeded = [*overrides, f"env.seed={first.env.seed + offset}"]
        experiments.append(experiment_from(document, overrides=seeded, imports=request.imports))
    return Chosen(experiments, origin)


def _document(request: ExperimentRequest) -> tuple[Document, str, bool]:
    """The document, where it comes from in words, and whether that is a file."""
    from rlstudio.core.parsing.yaml_file import Document, read_file
    from rlstudio.experiment.config.presets import FOLDER, find_preset

    if request.file is not None:
        if request.algo or request.env_id:
            raise UserError(
                "-f together with --algo or --env: give the file, and change it with policy.algo=... env.id=..."
            )
        path = _located(request.file)
        return read_file(path), _display_path(path, FOLDER), True
    if request.algo is None:
        raise UserError("nothing to launch; give a file with -f FILE, or --algo ALGO --env ENV")
    from rlstudio.core.catalog import ALGOS

    ALGOS.find(request.algo)
    env_id = request.env_id or _overridden_env(request.overrides)
    if env_id is None:
        raise UserError(f"--algo {request.algo} needs an environment; give --env ENV (`rlctl envs` lists them)")
    preset = find_preset(request.algo, env_id)
    if preset is not None:
        origin = f"{_display_path(preset, FOLDER)}, the preset for {request.algo} on {env_id}"
        return read_file(preset), origin, True
    origin = f"defaults of {request.algo}; there is no preset for {env_id}"
    return Document({"env": {"id": env_id}, "policy": {"algo": request.algo}}, "defaults"), origin, False


def _steps_of_all_agents(cfg: ExperimentConfig, overrides: list[str]) -> list[str]:
    """The defaults of an algorithm know no agents: an epoch is rounded up to whole steps of all of them, unless its
    length was given."""
    if any(text.startswith(("train.steps_per_epoch=", "train.rollout_steps=")) for text in overrides):
        return overrides
    from rlstudio.experiment.training.environments import steps_of_all_agents

    steps = steps_of_all_agents(cfg)
    if steps == cfg.train.steps_per_epoch:
        return overrides
    others = [text for text in overrides if not text.startswith(("train.total_steps=", "train.epochs="))]
    return [*others, f"train.epochs={cfg.train.epochs}", f"train.steps_per_epoch={steps}"]


def read_experiment(file: str) -> Document:
    """The file of an option `-f`, as it stands there."""
    from rlstudio.core.parsing.yaml_file import read_file

    return read_file(_located(file))


def _located(file: str) -> Path:
    from rlstudio.experiment.config.presets import locate

    try:
        return locate(file)
    except OSError as error:  # a name longer than the file system allows
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error
    except ConfigError as error:  # as one line, also where the file name has line breaks
        raise UserError(str(error)) from error


def _display_path(path: Path, shipped: Path) -> str:
    """A shipped file as `configs/...`, wherever it is installed."""
    return f"configs/{path.relative_to(shipped).as_posix()}" if path.is_relative_to(shipped) else str(path)


def _overridden_env(overrides: Sequence[str]) -> str | None:
    """The last `env.id=X` among the overrides, as in `python -m rlstudio.algos.ppo env.id=X`."""
    named = [text for key, _, text in (override.partition("=") for override in overrides) if key == "env.id"]
    return named[-1] if named else None


def _refuse_mistaken_files(request: ExperimentRequest) -> None:
    for override in request.overrides:
        if "=" not in override and override.endswith((".yaml", ".yml")):
            raise UserError(f"{override}: a file is given with -f: rlctl launch -f {override}")
