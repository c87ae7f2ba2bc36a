"""RLStudio from Python: the same runs, the same store and the same queue as `rlctl`.

    from rlstudio import orchestrator

    run = orchestrator.run("configs/ppo/cartpole.yaml", "train.lr=1e-3")      # here, until it is done
    run.metrics("eval/return_mean")                                            # a DataFrame where there is pandas
    agent = run.agent()                                                        # acts: agent.act(observation)

    runs = [orchestrator.launch(config, seed=seed) for seed in range(4)]       # in the background, as slots are free
    for run in runs:
        run.wait()

A configuration is a file, a dict or an `ExperimentConfig`; overrides are written as on the command line. Where runs lie
is `runs/`, the variable `RLSTUDIO_RUNS_DIR`, or `runs_dir`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstudio.control.home import RUNS_DIR_VARIABLE, Entry, Home
from rlstudio.control.lifecycle import Desired
from rlstudio.control.live import Live, describe
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import OWNED, RunState

if TYPE_CHECKING:
    from rlstudio.agents.agent import Agent
    from rlstudio.control.registry.records import Version
    from rlstudio.control.store.records import Event
    from rlstudio.control.sweep.report import Summary as SweepSummary
    from rlstudio.experiment.config import ExperimentConfig
    from rlstudio.experiment.evaluate import Evaluation
    from rlstudio.experiment.session import Session
    from rlstudio.experiment.status import Status

    Configuration = str | Path | Mapping[str, Any] | ExperimentConfig

POLL_SECONDS = 0.1
ACTIVE = OWNED | {RunState.QUEUED}


class Run:
    """A handle on one run, by its id. Everything is read when it is asked for; nothing is remembered here."""

    def __init__(self, home: Home, run_id: str) -> None:
        self.id = run_id
        self._home = home

    # -- looking ----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """State, progress and last evaluation, as they are now."""
        return self._entry().status

    @property
    def state(self) -> RunState:
        return self.status.state

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self._home.folder(self.id).path

    @property
    def config(self) -> ExperimentConfig:
        from rlstudio.experiment.load import read_config

        return read_config(self._home.folder_to_read(self.id))

    @property
    def lineage(self) -> dict[str, Any]:
        """Command, code, versions, host and hardware it was launched with."""
        return self._home.store.lineage(self.id)

    @property
    def parent(self) -> Run | None:
        """The run it was forked from."""
        parent_id = self._home.store.get(self.id).parent_id
        return None if parent_id is None else Run(self._home, parent_id)

    def history(self) -> list[Event]:
        """Every change of its state, oldest first."""
        return self._home.store.events(self.id)

    def metrics(self, *keys: str) -> Any:
        """What it measured: with pandas a DataFrame by environment steps, with a column for each metric; without it a
        dict of metric -> (steps, values) as arrays. `keys` chooses; without any, everything."""
        import numpy as np

        from rlstudio.experiment.metrics import read_series

        series = read_series(self._home.folder_to_read(self.id).path, set(keys) or None)
        missing = [key for key in keys if key not in series]
        if missing:
            known = ", ".join(sorted(read_series(self.path))) or "none yet"
            raise UserError(f"run {self.id}: no metric {missing[0]!r}; it has: {known}")
        try:
            import pandas as pd
        except ModuleNotFoundError:
            return {key: (np.array(steps), np.array(values)) for key, (steps, values) in series.items()}
        columns = {key: pd.Series(values, index=steps) for key, (steps, values) in series.items()}
        # A step may be told twice, by an epoch and by the evaluation after training: the later word counts.
        columns = {key: column[~column.index.duplicated(keep="last")] for key, column in columns.items()}
        return pd.DataFrame(columns).sort_index().rename_axis("env_steps")

    def agent(self, checkpoint: str = "last") -> Agent:
        """The trained agent (`last`, `best` or a number of steps): `agent.act(observation)`."""
        from rlstudio.experiment.load import load_run

        return load_run(self._home.folder_to_read(self.id), checkpoint).agent

    def evaluate(self, episodes: int = 20, checkpoint: str = "last", seed: int | None = None) -> Evaluation:
        """Play greedy episodes in the real environment: `.summary.mean`, `.summary.ci_low`, ..."""
        from rlstudio.experiment.evaluate import evaluate
        from rlstudio.experiment.load import load_run

        loaded = load_run(self._home.folder_to_read(self.id), checkpoint)
        used = loaded.cfg.env.seed if seed is None else seed
        return evaluate(loaded.agent, loaded.cfg.env, episodes=episodes, seed=used)

    # -- steering ---------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> Run:
        """Until it has ended, with a live line; TimeoutError after `timeout` seconds, and the run goes on."""
        live, started = Live(progress), time.monotonic()
        while (status := self.status).state in ACTIVE:
            live.show(status)
            if timeout is not None and time.monotonic() - started >= timeout:
                raise TimeoutError(f"run {self.id}: is {status.state} after {timeout:g} s; it goes on")
            time.sleep(POLL_SECONDS)
        live.show(status, over=True)
        return self

    def stop(self) -> Run:
        """End it at its next safe point, with a checkpoint; `resume` goes on with it."""
        return self._ask(Desired.STOP)

    def cancel(self) -> Run:
        """Take it out of the queue, or end it for good."""
        return self._ask(Desired.CANCEL)

    def resume(self, *overrides: str, progress: bool = True) -> Run:
        """Go on with it here, until it is done; `train.epochs=N` extends it."""
        from rlstudio.control.start import resume

        return _train(resume(self._home, self._home.known(self.id), overrides), self._home, progress)

    def fork(self, *overrides: str, at: str = "last", seed: int | None = None, name: str | None = None) -> Run:
        """A child from one of its checkpoints, in the queue."""
        from rlstudio.control.fork import fork_later
        from rlstudio.control.service import ensure_worker

        child = fork_later(self._home, self._home.known(self.id), at, [*overrides, *_named(seed, name)])
        ensure_worker(self._home)
        return Run(self._home, child.id)

    def _ask(self, desired: Desired) -> Run:
        from rlstudio.experiment.process import send

        asked = self._home.store.ask(self.id, desired)
        with suppress(PermissionError):  # another user's process hears of it with its next heartbeat
            # A run of this very process, in another thread, hears of it in the same way: a signal is the program's.
            if asked.is_owned and asked.has_process and asked.pid != os.getpid():
                send(asked.process, signal.SIGTERM)
        return self

    def _entry(self) -> Entry:
        return self._home.find(self.id)

    def __repr__(self) -> str:
        return f"<Run {self.id}: {describe(self.status)}>"


def run(
    config: Configuration,
    *overrides: str,
    seed: int | None = None,
    name: str | None = None,
    runs_dir: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Train an experiment here, until it is done. An error ends it and is raised; the run says the same."""
    from rlstudio.control.start import start

    home = _home(runs_dir)
    return _train(start(home, _experiment(config, [*overrides, *_named(seed, name)])), home, progress)


def launch(
    config: Configuration,
    *overrides: str,
    seed: int | None = None,
    name: str | None = None,
    key: str | None = None,
    runs_dir: str | Path | None = None,
) -> Run:
    """Put an experiment into the queue and come back at once. One `key` makes one run, however often it is launched."""
    from rlstudio.control.service import ensure_worker
    from rlstudio.control.start import enqueue

    home = _home(runs_dir)
    queued = enqueue(home, _experiment(config, [*overrides, *_named(seed, name)]), key=key)
    ensure_worker(home)
    return Run(home, queued.id)


def sweep(
    config: str | Path | Mapping[str, Any],
    *,
    max_concurrent: int | None = None,
    deterministic: bool = False,
    resume: bool = False,
    runs_dir: str | Path | None = None,
) -> SweepSummary:
    """Search the settings of an experiment, until all trials are done: `.best.params`, `.trials`, `.document()`.
    `resume`: `config` is the name of a sweep to go on with."""
    from rlstudio.control.sweep.hands import begin_sweep, drive, resume_sweep
    from rlstudio.control.sweep.report import summary_of
    from rlstudio.control.sweep.search import load_search

    home = _home(runs_dir)
    if resume:
        driver = resume_sweep(home, str(config), max_concurrent)
    else:
        changes = {"deterministic": True} if deterministic else {}
        driver = begin_sweep(home, load_search(config, changes=changes), max_concurrent)
    drive(home, driver)
    return summary_of(home.store, driver.sweep.name)


def resume(run_id: str, *overrides: str, runs_dir: str | Path | None = None, progress: bool = True) -> Run:
    """Go on with a run here, bit for bit, until it is done; `train.epochs=N` extends it."""
    return get(run_id, runs_dir=runs_dir).resume(*overrides, progress=progress)


def stop(run_id: str, *, runs_dir: str | Path | None = None) -> Run:
    """End a run at its next safe point; it can be resumed."""
    return get(run_id, runs_dir=runs_dir).stop()


def get(ref: str, *, runs_dir: str | Path | None = None) -> Run:
    """The run with this id, name or beginning of an id; `last` is the newest."""
    home = _home(runs_dir)
    return Run(home, home.find(ref).id)


def runs(limit: int | None = None, *, runs_dir: str | Path | None = None) -> list[Run]:
    """All runs, newest first."""
    home = _home(runs_dir)
    return [Run(home, entry.id) for entry in home.entries(limit)]


def promote(
    what: str,
    model: str = "",
    *,
    to: str = "staging",
    checkpoint: str = "last",
    if_current: int | None = None,
    force: str | None = None,
    runs_dir: str | Path | None = None,
    **settings: Any,
) -> Version:
    """Put a run, a bundle, `MODEL:3` or `MODEL:staging` into a stage; into production only if it is better, and
    `GateFailed` says why not. `settings` are those of `control.registry.promotion.PromotionConfig`: margin, min_return,
    budget, ..."""
    from rlstudio.control.registry.promotion import PromotionConfig
    from rlstudio.control.registry.records import Stage
    from rlstudio.control.registry.releases import Releases
    from rlstudio.core.config import parse

    cfg = parse(PromotionConfig, settings, "promote")
    releases = Releases(_home(runs_dir))
    version = releases.version(what, model, checkpoint)
    return releases.promote(version, Stage(to), cfg, if_current=if_current, force=force).version


def rollback(model: str, *, reason: str = "", runs_dir: str | Path | None = None) -> Version:
    """The version that was in production before is there again."""
    from rlstudio.control.registry.releases import Releases

    return Releases(_home(runs_dir)).rollback(model, reason=reason)


def _train(session: Session, home: Home, progress: bool) -> Run:
    live = Live(progress)
    with session:
        for _ in session:
            live.show(session.status)
        live.show(session.status, over=True)
    return Run(home, session.folder.id)


def _experiment(config: Configuration, overrides: list[str]) -> ExperimentConfig:
    from rlstudio.experiment.config import ExperimentConfig, experiment_from, load_experiment

    if isinstance(config, ExperimentConfig):
        return experiment_from(config.model_dump(mode="json"), "config", overrides, stored=True)
    if isinstance(config, Mapping):
        return experiment_from(config, "config", overrides)
    return load_experiment(config, overrides)


def _named(seed: int | None, name: str | None) -> list[str]:
    """The two settings that have a name of their own, here and on the command line."""
    given = {"env.seed": seed, "name": name}
    return [f"{path}={json.dumps(value)}" for path, value in given.items() if value is not None]


def _home(runs_dir: str | Path | None) -> Home:
    return Home(Path(runs_dir or os.environ.get(RUNS_DIR_VARIABLE) or "runs"))
