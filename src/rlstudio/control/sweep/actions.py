"""What a sweep does with real runs: queue them, fork them, read their metrics; and how a sweep is begun or resumed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress

from rlstudio.control.queue import ray_cluster
from rlstudio.control.queue.service import ensure_worker
from rlstudio.control.runs.fork import fork
from rlstudio.control.runs.place import check_place
from rlstudio.control.runs.remove import remove
from rlstudio.control.runs.start import check, request_of
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import asked_for, of_this_machine
from rlstudio.control.sweep.config import DEFAULT_METRIC
from rlstudio.control.sweep.driver import Driver, SweepProgress, pause_at, watch
from rlstudio.control.sweep.report import best_of
from rlstudio.control.sweep.search import SweepSearch, from_json, overrides
from rlstudio.control.sweep.sweeps import Sweep, Sweeps, SweepStopped, Trial
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import LeaseLost, Notice, RLStudioError
from rlstudio.core.host.portable import require
from rlstudio.core.host.process import is_gone, this_process
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.core.run_state import Reason
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.metrics.indexed.index import read_series
from rlstudio.experiment.run.notify import call

POLL_SECONDS = 0.1
LOOK_SECONDS = 2.0
"""A step is made at least so often, also where no run seems to have changed."""

WAKE_SECONDS = 5.0
"""A worker that died is replaced after so long."""


SLURM_AT_ONCE = 16
"""Trials that a sweep has in Slurm's queue at once, unless it says otherwise: how many run is Slurm's to decide."""


class QueueActions:
    """Implements `driver.RunActions`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._sweeps = Sweeps(workspace.store.database)

    def begin(self, search: SweepSearch, sweep: Sweep, trial: Trial, seed: int) -> None:
        cfg = search.experiment(dict(trial.params), seed, trial.number)
        request = request_of(cfg, sweep=sweep.name, trial=trial.number, pause_at=pause_at(search, trial))
        key = f"sweep/{sweep.name}/{trial.number}/{seed}"
        self._workspace.store.create(request, key=key, fence=self._sweeps.fence(sweep))

    def fork(self, search: SweepSearch, sweep: Sweep, trial: Trial, seed: int, parent: RunRow) -> None:
        missing = {axis.path for axis in search.space.axes} - trial.params.keys()
        settings = {path: _setting_at(search.data, path) for path in sorted(missing)} | dict(trial.params)
        settings["name"] = f"{sweep.name}-{trial.number}"
        session = fork(self._workspace, parent, "last", overrides(settings), sweep=sweep.name, trial=trial.number)
        session.close()
        until, fence = {"pause_at": pause_at(search, trial)}, self._sweeps.fence(sweep)
        self._workspace.store.resume(session.folder.id, Reason.RESUMED, changes=until, fence=fence)

    def is_left(self, run: RunRow) -> bool:
        """A fork is managed by the queue only once it is complete; before that, one without a process is a leftover."""
        if run.parent_id is None or run.is_managed or (run.is_owned and not is_gone(run.process)):
            return False
        remove(self._workspace, self._workspace.find(run.id))
        return True

    def measure(self, run: RunRow, metric: str, epoch: int) -> float | None:
        """What the store knows; a run that went further than it was sent is read from its folder."""
        if metric == DEFAULT_METRIC and run.epoch == epoch:
            return run.eval_return
        path = self._workspace.folder(run.id).path
        steps, values = read_series(path, {metric}).get(metric, ([], []))
        config = read_text(self._workspace.store.config_yaml(run.id), "config").data
        limit = run.env_steps if run.epoch == epoch else epoch * int(config["train"]["steps_per_epoch"])
        until = [value for step, value in zip(steps, values, strict=True) if step <= limit]
        return until[-1] if until else None

    def wake(self) -> None:
        ensure_worker(self._workspace)


def _setting_at(data: object, path: str) -> object:
    for part in path.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


def create_sweep(workspace: Workspace, search: SweepSearch) -> Sweep:
    """A new sweep of this process, after everything that can be refused was refused."""
    _require_numerics(search)
    check_place(workspace, search.base.resources)
    check(search.base)
    cfg, sweeps = search.cfg, Sweeps(workspace.store.database)
    return sweeps.create(cfg.name, search.to_json(), this_process(), deterministic=cfg.deterministic)


def begin_sweep(workspace: Workspace, search: SweepSearch, max_concurrent: int | None = None) -> Driver:
    return _driver(workspace, create_sweep(workspace, search), search, max_concurrent)


def resume_sweep(
    workspace: Workspace, name: str, max_concurrent: int | None = None, *, take_over: bool = False
) -> Driver:
    """Go on with a sweep as it was begun, whatever became of its file."""
    workspace.reap()  # a run that was being paused when it died counts as paused
    sweeps = Sweeps(workspace.store.database)
    search = from_json(sweeps.get(name).config)
    _require_numerics(search)
    return _driver(workspace, sweeps.claim(name, this_process(), take_over=take_over), search, max_concurrent)


def _require_numerics(search: SweepSearch) -> None:
    """The driver of a pbt sweep opens the copies itself; other runs are only queued here."""
    if search.cfg.sampler.kind == "pbt":
        require(search.base.runtime.numerics)


def _driver(workspace: Workspace, sweep: Sweep, search: SweepSearch, max_concurrent: int | None) -> Driver:
    at_once = max_concurrent or search.cfg.max_concurrent or _fitting(search.base)
    return Driver(workspace.store, sweep, search, QueueActions(workspace), at_once)


def _fitting(cfg: ExperimentConfig) -> int:
    """How many runs have room at once: in the cluster, or here."""
    if cfg.resources.backend == "slurm":
        return SLURM_AT_ONCE
    if cfg.resources.backend == "ray" and ray_cluster.is_known(cfg.resources.address):
        return ray_cluster.fitting(cfg.resources)
    machine, asked = of_this_machine(), asked_for(cfg.resources, cfg.runtime.device)
    fitting: list[int] = [machine.cpus // asked["cpus"], *([machine.gpus // asked["gpus"]] if asked["gpus"] else [])]
    return max(1, min(fitting))


def drive(
    workspace: Workspace,
    driver: Driver,
    show: Callable[[SweepProgress], None] = lambda progress: None,
    *,
    notify: Sequence[str] = (),
) -> SweepProgress:
    """Drive a sweep to its end, with a step whenever a run changed; an error leaves a sweep that can be resumed.
    `notify`: a command that gets how this driving of it ended; it is not remembered."""
    sweeps, wake_at = Sweeps(workspace.store.database), 0.0

    def wait(progress: SweepProgress) -> None:
        nonlocal wake_at
        show(progress)
        if time.monotonic() >= wake_at:
            ensure_worker(workspace)
            wake_at = time.monotonic() + WAKE_SECONDS
        until = time.monotonic() + LOOK_SECONDS
        while time.monotonic() < until and sweeps.pulse(driver.sweep.name) == driver.pulse:
            time.sleep(POLL_SECONDS)

    try:
        progress = watch(driver, wait)
    except BaseException as error:
        with suppress(RLStudioError):  # taken over, or the store is away: the first error is the one to report
            driver.stop()
        if isinstance(error, KeyboardInterrupt | SweepStopped):
            _notify(notify, sweeps, driver.sweep.name, "stopped")
        elif not isinstance(error, LeaseLost):  # taken over: the sweep goes on in another process
            _notify(notify, sweeps, driver.sweep.name, "failed", str(error))
        raise
    show(progress)
    _notify(notify, sweeps, driver.sweep.name, "completed")
    return progress


def _notify(command: Sequence[str], sweeps: Sweeps, name: str, event: str, message: str = "") -> None:
    """Tell the command; what goes wrong with it ends nothing."""
    if not command:
        return
    trials: Sequence[Trial] = ()
    with suppress(RLStudioError):  # the store is away, which is perhaps what the message says
        trials = sweeps.trials(name)
    best = best_of(trials)
    winner = {"trial": best.number, "params": dict(best.params)} if best else None
    document = {"event": event, "sweep": name, "message": message, "trials": len(trials), "best": winner}
    if problem := call(command, document):
        warnings.warn(f"sweep {name}: --notify {command[0]}: {problem}", Notice, stacklevel=2)
