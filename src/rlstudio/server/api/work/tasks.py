"""The tasks of the workbench: what is asked for as plain data, and the ids or documents that come of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstudio.control.choices import catalog_document
from rlstudio.control.queue.service import ensure_worker
from rlstudio.control.runs.adopt import known_run
from rlstudio.control.runs.fences import DoneBefore, once, unchanged
from rlstudio.control.sweep.background import resume_command, start_driver
from rlstudio.control.sweep.config import SweepConfig
from rlstudio.control.sweep.report import best_yaml, summary_of
from rlstudio.control.sweep.search import SweepSearch, load_search
from rlstudio.control.sweep.search import overrides as settings
from rlstudio.control.sweep.sweeps import Sweeps, SweepState
from rlstudio.control.workspace import Workspace
from rlstudio.core.config import apply_overrides, config_hash, parse, to_yaml
from rlstudio.core.errors import ConfigError, RLStudioError
from rlstudio.core.parsing.yaml_file import Document, read_text
from rlstudio.core.parsing.yaml_text import write_text
from rlstudio.experiment.config.presets import presets, shipped_name
from rlstudio.experiment.config.schema import experiment_schema
from rlstudio.server.api.work.refusals import problems_of
from rlstudio.server.api.work.remote import refuse_places, refuse_unknown_env

if TYPE_CHECKING:
    from rlstudio.experiment.config.experiment import ExperimentConfig

SOURCE = "experiment"


class Tasks:
    """`imports`: modules that were allowed when the server was started."""

    def __init__(self, runs_dir: Path, imports: Sequence[str]) -> None:
        from rlstudio.experiment.config.imports import import_modules

        self._workspace = Workspace(runs_dir)
        self._imports = import_modules(imports, runs_dir=runs_dir)

    def known(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "validate": self.validate,
            "launch": self.launch,
            "fork": self.fork,
            "resume": self.resume,
            "sweep": self.sweep,
            "validate_sweep": self.validate_sweep,
            "resume_sweep": self.resume_sweep,
            "best": self.best,
            "catalog": catalog_document,
            "schema": experiment_schema,
        }

    # -- experiments ------------------------------------------------------------------------------------------------

    def validate(self, **asked: Any) -> dict[str, Any]:
        """The whole configuration, or what is wrong with it, field by field."""
        from rlstudio.control.runs.start import check

        try:
            experiments = self._experiments(**asked)
            check(experiments[0])
        except RLStudioError as error:
            return {"ok": False, "config": None, "yaml": None, "problems": problems_of(error)}
        cfg = experiments[0]
        return {
            "ok": True,
            "config": cfg.model_dump(mode="json"),
            "yaml": to_yaml(cfg),
            "config_hash": config_hash(cfg),
            "seeds": [experiment.env.seed for experiment in experiments],
            "problems": [],
        }

    def launch(self, key: str | None, **asked: Any) -> list[str]:
        """The ids of the queued runs, one for each seed. All of them are checked before the first is there."""
        from rlstudio.control.runs.start import enqueue_once

        queued = enqueue_once(self._workspace, self._experiments(**asked), key=key)
        ensure_worker(self._workspace)
        return [run.id for run in queued]

    def _experiments(
        self,
        text: str,
        overrides: Sequence[str],
        seed: int | None,
        name: str | None,
        seeds: int,
        priority: int | None,
    ) -> list[ExperimentConfig]:
        from rlstudio.experiment.config.experiment import experiment_from

        named = [*_named(seed, name), *([] if priority is None else [f"resources.priority={priority}"])]
        changed = apply_overrides(read_text(text, SOURCE), [*overrides, *named], SOURCE)
        self._refuse_foreign(changed)
        first = experiment_from(changed, imports=self._imports)
        others = range(first.env.seed + 1, first.env.seed + seeds)
        more = [experiment_from(changed, overrides=[f"env.seed={other}"], imports=self._imports) for other in others]
        return [first, *more]

    def _refuse_foreign(self, experiment: Document) -> None:
        """Places, and environments outside the catalog."""
        refuse_places(experiment, self._imports)
        data = experiment.data
        env = data.get("env") if isinstance(data, Mapping) else None
        env_id = env.get("id") if isinstance(env, Mapping) else None
        if isinstance(env_id, str):
            refuse_unknown_env(env_id, self._env_ids)

    @cached_property
    def _env_ids(self) -> list[str]:
        from rlstudio.experiment.training.environments import known_envs

        return [env.id for env in known_envs()]

    # -- sweeps -----------------------------------------------------------------------------------------------------

    def validate_sweep(self, text: str, overrides: Sequence[str]) -> dict[str, Any]:
        """The whole sweep, or what is wrong with it."""
        try:
            search = self._search(text, overrides)
        except RLStudioError as error:
            return {"ok": False, "config": None, "yaml": None, "problems": problems_of(error)}
        data = json.loads(search.to_json())
        return {"ok": True, "config": data, "yaml": write_text(data), "problems": []}

    def sweep(self, text: str, overrides: Sequence[str], max_concurrent: int | None, again: bool) -> str:
        """The name of a sweep that a process of its own drives from now on. `again`: it may have been begun by the same
        request, whose answer was lost; then it is that one."""
        from rlstudio.control.sweep.actions import create_sweep

        search = self._search(text, overrides)
        name, sweeps = search.cfg.name, Sweeps(self._workspace.store.database)
        known = next((sweep for sweep in sweeps.all() if sweep.name == name), None)
        if known is None or not again or known.config != search.to_json():
            sweeps.end(create_sweep(self._workspace, search), SweepState.STOPPED)  # left for its own process
        elif known.is_driven or known.state == SweepState.COMPLETED:
            return name
        start_driver(self._workspace, name, resume_command(self._workspace, name, max_concurrent))
        return name

    def resume_sweep(self, name: str, max_concurrent: int | None) -> str:
        start_driver(self._workspace, name, resume_command(self._workspace, name, max_concurrent))
        return name

    def best(self, name: str) -> dict[str, Any] | None:
        """The best trial as an experiment; None while no trial has completed."""
        text = best_yaml(summary_of(self._workspace.records, name))
        return None if text is None else {"yaml": text, "config": read_text(text, SOURCE).data}

    def _search(self, text: str, overrides: Sequence[str]) -> SweepSearch:
        document = apply_overrides(read_text(text, "sweep"), overrides, "sweep")
        data = document.data
        if isinstance(data, dict) and isinstance(data.get("experiment"), str):
            data = {**data, "experiment": _shipped(data["experiment"])}
            document = Document(data, document.source, document.marks, document.overrides)
        experiment = data.get("experiment") if isinstance(data, dict) else None
        refuse_places(document, self._imports)
        if isinstance(experiment, dict):
            self._refuse_foreign(Document(experiment, document.source))
        self._check_overrides(_changes(parse(SweepConfig, document)))
        return load_search(document, imports=self._imports)

    # -- runs -------------------------------------------------------------------------------------------------------

    def fork(
        self,
        run_id: str,
        at: str,
        overrides: Sequence[str],
        seed: int | None,
        name: str | None,
        key: str | None,
    ) -> str:
        """The id of the child in the queue."""
        from rlstudio.control.runs.fork import fork_later

        parent = known_run(self._workspace, run_id)
        changes = [*overrides, *_named(seed, name)]
        self._check_overrides(changes)
        child = fork_later(self._workspace, parent, at, changes, key=key)
        ensure_worker(self._workspace)
        return child.id

    def resume(self, run_id: str, overrides: Sequence[str], etag: str | None, key: str | None) -> str:
        """The run is in the queue again; a finished one goes on for longer. A key does that once."""
        from rlstudio.control.runs.start import requeue

        self._check_overrides(overrides)
        run = known_run(self._workspace, run_id)
        if key is None or self._workspace.store.run_of_key(key) is None:
            with suppress(DoneBefore):
                requeue(self._workspace, run, overrides, fence=once(run_id, key, unchanged(run_id, etag)))
        ensure_worker(self._workspace)
        return run.id

    def _check_overrides(self, overrides: Iterable[str]) -> None:
        for change in overrides:  # one by one: a later one hides none of those before
            self._refuse_foreign(apply_overrides({}, [change], SOURCE))


def _changes(sweep: SweepConfig) -> Iterator[str]:
    """What a sweep sets in its experiment: in all of its trials, or in those that choose it."""
    yield from sweep.overrides
    for path, dimension in sweep.space.items():
        yield from (change for choice in dimension.choices or () for change in settings({path: choice}))


def _shipped(file: str) -> object:
    """A sweep may name an experiment that ships with RLStudio, as a shipped sweep does; no other file."""
    for path in presets():
        if shipped_name(path) == file:
            return read_text(path.read_text(), file).data
    raise ConfigError(f"sweep: experiment: {file[:100]!a} does not ship with RLStudio; give the experiment itself")


def _named(seed: int | None, name: str | None) -> list[str]:
    """Overrides for the settings that have fields of their own."""
    return [*([] if name is None else [f"name={json.dumps(name)}"]), *([] if seed is None else [f"env.seed={seed}"])]
