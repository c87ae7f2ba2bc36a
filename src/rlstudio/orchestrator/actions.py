"""What can be done with runs from Python: train, queue, sweep, find, promote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import NoMatch
from rlstudio.experiment.folder.runs_dir import usual_runs_dir
from rlstudio.orchestrator.handle import Run, named_settings, train

if TYPE_CHECKING:
    from rlstudio.control.registry.records import Version
    from rlstudio.control.sweep.report import SweepSummary
    from rlstudio.experiment.config.experiment import ExperimentConfig
    from rlstudio.experiment.run.session import Session
    from rlstudio.experiment.training.environments import EnvObject

    Configuration = str | Path | Mapping[str, object] | ExperimentConfig


def run(
    config: Configuration | None = None,
    *overrides: str,
    env: EnvObject = None,
    seed: int | None = None,
    name: str | None = None,
    notify: Sequence[str] = (),
    runs_dir: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Train an experiment in this process until it is done. An error ends the run, is recorded in it and is raised.
    `env`: an environment of your own, as a class, a function that makes one, or an object that is copied; such a run
    can be resumed only from Python, with the same environment: `resume(run.id, env=...)`."""
    begun = session(config, *overrides, env=env, seed=seed, name=name, notify=notify, runs_dir=runs_dir)
    return train(begun, _workspace(runs_dir), progress)


def session(
    config: Configuration | None = None,
    *overrides: str,
    env: EnvObject = None,
    seed: int | None = None,
    name: str | None = None,
    notify: Sequence[str] = (),
    runs_dir: str | Path | None = None,
) -> Session:
    """A new run in this process, in a loop of your own: `with session(config) as session: for tick in session: ...`. If
    you leave the loop early, `get(session.folder.id).session()` continues the run, bit for bit."""
    from rlstudio.control.runs.start import start_session
    from rlstudio.experiment.training.environments import given_env

    own = [] if env is None else [f"env.id={given_env(env)}"]
    settings = [*own, *overrides, *named_settings(seed, name)]
    experiment = _experiment({} if config is None else config, settings)
    return start_session(_workspace(runs_dir), experiment, notify=notify)


def launch(
    config: Configuration,
    *overrides: str,
    seed: int | None = None,
    name: str | None = None,
    key: str | None = None,
    notify: Sequence[str] = (),
    runs_dir: str | Path | None = None,
) -> Run:
    """Put an experiment into the queue and return at once. Launches with the same `key` make one run."""
    from rlstudio.control.queue.service import ensure_worker
    from rlstudio.control.runs.start import enqueue

    workspace = _workspace(runs_dir)
    experiment = _experiment(config, [*overrides, *named_settings(seed, name)])
    queued = enqueue(workspace, experiment, key=key, notify=notify)
    ensure_worker(workspace)
    return Run(workspace, queued.id)


def fork(
    what: str | Path,
    *overrides: str,
    at: str = "last",
    seed: int | None = None,
    name: str | None = None,
    imports: Sequence[str] = (),
    notify: Sequence[str] = (),
    runs_dir: str | Path | None = None,
) -> Run:
    """Put a child run into the queue. It starts from a checkpoint of a run (`at`), or from the weights and normalizers
    of a bundle or `MODEL:production`. `imports`: modules that its environment needs, by name or by file; those that a
    run was launched with here are imported anyway."""
    from rlstudio.control.queue.service import ensure_worker
    from rlstudio.control.registry.bundles import named_bundle
    from rlstudio.control.registry.records import is_reference
    from rlstudio.control.runs.fork_bundle import fork_bundle_later
    from rlstudio.experiment.config.imports import import_modules

    workspace = _workspace(runs_dir)
    modules = import_modules(imports, runs_dir=workspace.runs_dir)
    bundle = named_bundle(str(what), workspace.runs_dir)
    if bundle is None:
        return get(str(what), runs_dir=runs_dir).fork(*overrides, at=at, seed=seed, name=name, notify=notify)
    version = str(what) if is_reference(str(what)) else None
    changes = [*overrides, *named_settings(seed, name)]
    child = fork_bundle_later(workspace, bundle, changes, imports=modules, version=version, notify=notify)
    ensure_worker(workspace)
    return Run(workspace, child.id)


def sweep(
    config: str | Path | Mapping[str, object],
    *,
    max_concurrent: int | None = None,
    deterministic: bool = False,
    resume: bool = False,
    notify: Sequence[str] = (),
    runs_dir: str | Path | None = None,
) -> SweepSummary:
    """Search the settings of an experiment, until all trials are done: `.best.params`, `.trials`, `.document()`.
    `resume`: `config` is the name of a sweep to continue. `notify`: a command that receives how it ended."""
    from rlstudio.control.sweep.actions import begin_sweep, drive, resume_sweep
    from rlstudio.control.sweep.report import summary_of
    from rlstudio.control.sweep.search import load_search

    workspace = _workspace(runs_dir)
    if resume:
        driver = resume_sweep(workspace, str(config), max_concurrent)
    else:
        changes = {"deterministic": True} if deterministic else {}
        driver = begin_sweep(workspace, load_search(config, changes=changes), max_concurrent)
    drive(workspace, driver, notify=notify)
    return summary_of(workspace.store, driver.sweep.name)


def stop_sweep(name: str, *, runs_dir: str | Path | None = None) -> None:
    """Stop a sweep, whichever process drives it; its runs pause at their next safe points. `sweep(name, resume=True)`
    continues it."""
    from rlstudio.control.sweep.ending import stop_sweep

    for request in stop_sweep(_workspace(runs_dir), name):
        request.deliver()


def remove_sweep(name: str, *, runs_dir: str | Path | None = None) -> None:
    """Delete a sweep that is not running, with all its runs."""
    from rlstudio.control.sweep.ending import remove_sweep

    for _ in remove_sweep(_workspace(runs_dir), name):
        pass


def resume(
    run_id: str,
    *overrides: str,
    env: EnvObject = None,
    notify: Sequence[str] = (),
    runs_dir: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Continue a run in this process, bit for bit, until it is done; `train.epochs=N` extends it. `env`: for a run that
    was started with an environment of Python, the same one."""
    return get(run_id, runs_dir=runs_dir).resume(*overrides, env=env, notify=notify, progress=progress)


def stop(run_id: str, *, runs_dir: str | Path | None = None) -> Run:
    """Stop a run at its next safe point; it can be resumed."""
    return get(run_id, runs_dir=runs_dir).stop()


def pause(run_id: str, *, runs_dir: str | Path | None = None) -> Run:
    """Stop a run of the queue at its next safe point; it keeps its place there, and `resume` puts it back."""
    return get(run_id, runs_dir=runs_dir).pause()


def get(ref: str, *, runs_dir: str | Path | None = None) -> Run:
    """The run with this id, handle, name, path or beginning of an id; `last` is the newest. A name that several runs
    have is refused; `runs(words=[name])` returns all of them."""
    workspace = _workspace(runs_dir)
    return Run(workspace, workspace.find(ref).id)


def runs(
    limit: int | None = None,
    *,
    words: Sequence[str] = (),
    states: Sequence[str] = (),
    envs: Sequence[str] = (),
    algos: Sequence[str] = (),
    tags: Sequence[str] = (),
    runs_dir: str | Path | None = None,
) -> list[Run]:
    """Runs, newest first: all of them, or those that the words mean (`["lr1e-3"]`: every run of that name) and that
    pass the filters (`states=["failed"]`); an empty list if there are none."""
    from rlstudio.control.runs.select import Filters, select

    workspace, filters = _workspace(runs_dir), Filters(states, envs, algos, tags)
    if not words and not filters:
        return [Run(workspace, entry.id) for entry in workspace.entries(limit)]
    try:
        ids = sorted((entry.id for entry in select(workspace, words, filters)), reverse=True)
    except NoMatch:
        ids = []
    return [Run(workspace, run_id) for run_id in ids[:limit]]


def promote(
    what: str,
    model: str = "",
    *,
    to: str = "staging",
    checkpoint: str = "last",
    if_current: int | None = None,
    force: str | None = None,
    runs_dir: str | Path | None = None,
    **settings: object,
) -> Version:
    """Put a run, a bundle, `MODEL:3` or `MODEL:staging` into a stage; into production only if it is better; otherwise
    `GateFailed` says why not. `settings` are those of `control.registry.promotion.PromotionConfig`: margin, min_return,
    budget, ..."""
    from rlstudio.control.registry.promotion import PromotionConfig
    from rlstudio.control.registry.records import Stage
    from rlstudio.control.registry.releases import Releases
    from rlstudio.core.config import parse

    cfg = parse(PromotionConfig, settings, "promote")
    releases = Releases(_workspace(runs_dir))
    version = releases.version(what, model, checkpoint)
    return releases.promote(version, Stage(to), cfg, if_current=if_current, force=force).version


def rollback(model: str, *, reason: str = "", runs_dir: str | Path | None = None) -> Version:
    """Put the previous production version back into production."""
    from rlstudio.control.registry.releases import Releases

    return Releases(_workspace(runs_dir)).rollback(model, reason=reason)


def _experiment(config: Configuration, overrides: list[str]) -> ExperimentConfig:
    from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from, load_experiment

    if isinstance(config, ExperimentConfig):
        return experiment_from(config.model_dump(mode="json"), "config", overrides, stored=True)
    if isinstance(config, Mapping):
        return experiment_from(config, "config", overrides)
    return load_experiment(config, overrides)


def _workspace(runs_dir: str | Path | None) -> Workspace:
    return Workspace(Path(runs_dir or usual_runs_dir()))
