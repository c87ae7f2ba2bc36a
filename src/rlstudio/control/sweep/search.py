"""SweepSearch: a sweep whose file was checked, with the experiment of any parameters and the rungs of its trials."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rlstudio.control.sweep.config import SweepConfig
from rlstudio.control.sweep.rungs import brackets_of, ladder
from rlstudio.control.sweep.space import Params, Space
from rlstudio.core.config import parse
from rlstudio.core.errors import ConfigError, Notice
from rlstudio.core.parsing.yaml_file import Document, read_file
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.config.imports import import_stored, with_files
from rlstudio.experiment.config.presets import locate

OWN = {
    "env.seed": "seeds: lists the seeds, the same for every trial",
    "name": "a run is called by its sweep and trial",
    "train.epochs": "a trial costs the same as the others; set it with overrides: [train.epochs=N]",
    "imports": "only --import can name modules to run",
}
"""Settings that a space may not hold, and why."""


@dataclass(frozen=True)
class SweepSearch:
    cfg: SweepConfig
    base: ExperimentConfig

    @cached_property
    def data(self) -> dict[str, object]:
        return self.base.model_dump(mode="json")

    @cached_property
    def space(self) -> Space:
        return Space(self.cfg.space, self.data)

    @property
    def epochs(self) -> int:
        return self.base.train.epochs

    @cached_property
    def trials(self) -> int:
        """How many there will be; a pbt sweep adds copies to its members."""
        if self.cfg.sampler.kind != "grid":
            return self.cfg.trials or 0
        size = len(self.space.grid())
        return size if self.cfg.trials is None else min(size, self.cfg.trials)

    @cached_property
    def rungs(self) -> tuple[int, ...]:
        """Epochs at which trials are compared, all before the last."""
        return ladder(self.cfg, self.epochs, self.base.eval.every_epochs)

    @cached_property
    def brackets(self) -> tuple[int, ...]:
        """For each trial, the rung it is first compared at, as an index."""
        return brackets_of(self.cfg.pruner, len(self.rungs), self.trials)

    def bracket(self, number: int) -> int:
        return self.brackets[number] if number < len(self.brackets) else 0

    def targets(self, bracket: int) -> tuple[int, ...]:
        """The epochs at which a trial of this bracket stops, the last one included."""
        return (*self.rungs[bracket:], self.epochs)

    def experiment(self, params: Params, seed: int, number: int) -> ExperimentConfig:
        """What a run of a trial is. A ConfigError where the parameters do not go together."""
        named = {"env.seed": seed, "name": self.cfg.run_name(number)}
        return experiment_from(self.data, f"trial {number}", overrides({**params, **named}), stored=True)

    def to_json(self) -> str:
        """Everything, so that a changed file changes nothing for a sweep under way. A module that was named by its file
        stays named by it: a sweep may go on from another directory."""
        data = {**self.data, "imports": list(with_files(self.base.imports))}
        resolved = self.cfg.model_copy(update={"experiment": data, "overrides": ()})
        return json.dumps(resolved.model_dump(mode="json"), sort_keys=True)


def overrides(params: Mapping[str, object]) -> list[str]:
    return [f"{path}={json.dumps(value)}" for path, value in params.items()]


def from_json(text: str) -> SweepSearch:
    """A sweep as the store has it, after importing the modules it was begun with."""
    cfg = parse(SweepConfig, json.loads(text), "sweep")
    if not isinstance(cfg.experiment, dict):
        raise ConfigError(f"sweep {cfg.name}: the store was tampered with; start it anew under another name")
    experiment = Document(cfg.experiment, f"sweep {cfg.name}")
    import_stored(experiment)
    return SweepSearch(cfg, experiment_from(experiment, stored=True))


def load_search(
    source: str | Path | Mapping[str, object] | Document,
    *,
    imports: Sequence[str] = (),
    changes: Mapping[str, object] | None = None,
) -> SweepSearch:
    """Check a sweep before its first trial: the file, the experiment, every path and both ends of every range.
    `changes` replace top-level keys (of the command line)."""
    if isinstance(source, Document):
        document = source
    else:
        document = Document(dict(source), "sweep") if isinstance(source, Mapping) else read_file(locate(source))
    if isinstance(document.data, dict) and changes:
        document = Document({**document.data, **changes}, document.source, document.marks)
    cfg = parse(SweepConfig, document)
    # Trials are compared at the same epochs, so none of them ends before.
    to_the_end = (*cfg.overrides, "gates.stop_at=null", "gates.plateau=null")
    base = experiment_from(_experiment(cfg, document), overrides=to_the_end, imports=imports)
    search = SweepSearch(cfg, base)
    problems = list(_problems(search, document))
    if problems:
        raise ConfigError("\n".join(problems))
    _say_if_random(search)
    return search


def _say_if_random(search: SweepSearch) -> None:
    """`tpe` begins with trials chosen at random; a sweep may end before it has begun."""
    sampler = search.cfg.sampler
    if sampler.kind == "tpe" and search.trials <= sampler.startup_trials:
        warnings.warn(
            f"sampler: tpe chooses its first {sampler.startup_trials} trials at random (sampler.startup_trials) and"
            f" trials is {search.trials}, so this is a random search; raise trials or lower startup_trials",
            Notice,
            stacklevel=3,
        )


def _experiment(cfg: SweepConfig, document: Document) -> Document:
    """The experiment's own document: a section of the sweep's file, or another file."""
    if isinstance(cfg.experiment, dict):
        marks = {path[1:]: mark for path, mark in document.marks.items() if path[:1] == ("experiment",)}
        return Document(cfg.experiment, document.source, marks)
    beside = Path(document.source).parent / cfg.experiment
    where = f"{document.where(('experiment',))}: experiment: "
    try:
        return read_file(beside if beside.is_file() else locate(cfg.experiment))
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from None


def _problems(search: SweepSearch, document: Document) -> list[str]:
    """One line each, with the place in the sweep's own file."""
    try:
        space = search.space
    except ConfigError as error:
        return [_placed(document, str(error))]
    problems = []
    for axis in space.axes:
        if axis.path in OWN:
            problems.append(_placed(document, f"space.{axis.path}: {OWN[axis.path]}"))
            continue
        needed = space.needed(axis)
        for value in axis.ends():
            try:
                experiment_from(search.data, "space", overrides({**needed, axis.path: value}), stored=True)
            except ConfigError as error:
                reasons = [line.partition(f"{axis.path}: ")[2] or line for line in str(error).splitlines()]
                problems += [_placed(document, f"space.{axis.path}: {reason} (at {value})") for reason in reasons]
                break
    try:
        _ = search.rungs, search.trials
    except ConfigError as error:
        problems.append(_placed(document, str(error)))
    if search.cfg.sampler.kind == "cmaes":
        unfit = [axis.path for axis in space.axes if axis.choices is not None or axis.dimension.when]
        problems += [
            _placed(document, f"space.{path}: cmaes takes ranges without conditions only; use tpe") for path in unfit
        ]
    return problems


def _placed(document: Document, problem: str) -> str:
    """`space.train.lr: ...` with the line that `train.lr` is on; paths in a space have dots themselves."""
    field = problem.partition(": ")[0]
    section, _, rest = field.partition(".")
    inner = next(
        (key[1] for key in document.marks if len(key) == 2 and key[0] == section and _begins(rest, key[1])), ""
    )
    place = document.where((section, inner) if inner else (section,))
    return f"{place}: {problem}"


def _begins(path: str, key: str | int) -> bool:
    return path == key or path.startswith(f"{key}.")
