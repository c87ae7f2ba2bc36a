"""Sweeps over real runs: pauses that cost no bit, forks whose settings are live, and the driver's hands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from rlstudio.control.queue import runner
from rlstudio.control.store.records import RunRow
from rlstudio.control.sweep.actions import QueueActions, begin_sweep, resume_sweep
from rlstudio.control.sweep.charts import draw
from rlstudio.control.sweep.driver import Driver
from rlstudio.control.sweep.report import best_yaml, importance, summary_of
from rlstudio.control.sweep.search import load_search
from rlstudio.control.sweep.sweeps import Sweeps, Trial, TrialState
from rlstudio.control.workspace import Workspace
from rlstudio.core.host.process import this_process
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import experiment_from
from support.experiments import merged
from support.metrics import first_difference
from support.sweep_world import EXPERIMENT, SWEEP

SMALL = merged(EXPERIMENT, {"train": {"epochs": 4}})
SPACE = {"train.lr": {"low": 1e-4, "high": 1e-2, "log": True}, "train.passes": {"low": 1, "high": 3}}
REAL: dict[str, Any] = {**SWEEP, "name": "real", "experiment": SMALL, "trials": 3, "space": SPACE}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr("rlstudio.control.sweep.actions.ensure_worker", lambda workspace: None)
    return Workspace(tmp_path / "runs")


def serve(workspace: Workspace, queued: Sequence[RunRow]) -> None:
    """As a worker does, in this process."""
    for run in queued:
        claimed = workspace.store.claim(run.id, this_process())
        runner.main(run.id, claimed.token, workspace.runs_dir)


def drive(workspace: Workspace, driver: Driver) -> list[Trial]:
    while not (seen := driver.step()).is_over:
        serve(workspace, [run for run in reversed(workspace.store.runs()) if run.state == RunState.QUEUED])
    return seen.trials


def test_a_run_that_was_paused_at_rungs_has_the_bits_of_one_that_was_not(workspace: Workspace) -> None:
    search = load_search({**REAL, "pruner": {"kind": "asha", "rungs": [1, 2], "eta": 3}})
    trials = drive(workspace, begin_sweep(workspace, search, 3))
    assert [trial.state for trial in trials].count(TrialState.COMPLETED) == 1
    best = summary_of(workspace.store, "real").best
    assert best is not None
    (run,) = [run for run in workspace.store.runs(sweep="real") if run.trial == best.number]
    events = [(event.state, event.reason) for event in workspace.store.events(run.id)]
    assert events.count(("INTERRUPTED", "paused")) == 2
    assert (run.epoch, run.attempt, run.eval_return) == (4, 3, best.results[4][0])
    plain = workspace.store.create(home_request(search, best), run_id=None)
    serve(workspace, [plain])
    again = workspace.store.get(plain.id)
    assert (again.state, again.state_hash) == (RunState.COMPLETED, run.state_hash)
    assert first_difference(workspace.folder(run.id).path, workspace.folder(plain.id).path) is None
    for trial in trials:
        if trial.state == TrialState.PRUNED:
            (paused,) = [run for run in workspace.store.runs(sweep="real") if run.trial == trial.number]
            assert (paused.state, paused.reason, paused.epoch) == (RunState.INTERRUPTED, Reason.PAUSED, 1)


def home_request(search: Any, trial: Trial) -> Any:
    from rlstudio.control.runs.start import request_of

    return request_of(search.experiment(dict(trial.params), 0, trial.number))


def test_another_metric_is_read_from_the_folder(workspace: Workspace) -> None:
    changes = {"metric": "train/entropy", "direction": "minimize", "pruner": {"kind": "none"}, "trials": 1}
    (trial,) = drive(workspace, begin_sweep(workspace, load_search({**REAL, **changes}), 1))
    (run,) = workspace.store.runs(sweep="real")
    hands = QueueActions(workspace)
    assert trial.results == {4: {0: hands.measure(run, "train/entropy", 4)}}
    assert trial.score == -trial.results[4][0]
    earlier = hands.measure(run, "train/entropy", 2)
    assert earlier is not None
    assert earlier != trial.results[4][0]
    assert hands.measure(run, "train/nothing", 2) is None


def test_what_it_found_as_pictures_and_as_a_config(workspace: Workspace, tmp_path: Path) -> None:
    search = load_search({**REAL, "trials": 4, "pruner": {"kind": "asha", "rungs": [1], "eta": 2}})
    drive(workspace, begin_sweep(workspace, search, 4))
    summary = summary_of(workspace.store, "real")
    assert set(importance(summary)) == set(SPACE)
    assert all(0 <= value <= 1 for value in importance(summary).values())
    for suffix in (".svg", ".png"):
        for path in draw(summary, tmp_path / "out", suffix):
            assert path.stat().st_size > 5000
    best = summary.best
    assert best is not None
    cfg = experiment_from(read_text(best_yaml(summary) or "", "best.yaml"))
    assert (cfg.train.lr, cfg.name) == (best.params["train.lr"], "real-best")
    assert json.loads(json.dumps(summary.document()))["best"] == best.number


PBT = {"sampler": {"kind": "pbt", "interval": 2}, "pruner": {"kind": "none"}, "trials": 4}


def test_pbt_copies_the_better_and_the_new_settings_are_live(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlstudio.experiment.run.session import Session

    rates: dict[str, list[float]] = {}
    save = Session._save

    def noting_rate(session: Session) -> None:
        rates.setdefault(session.folder.id, []).append(float(session.trainer.optimizer.lr))
        save(session)

    monkeypatch.setattr(Session, "_save", noting_rate)
    experiment = {**SMALL, "train": {**SMALL["train"], "lr_schedule": "constant"}}
    search = load_search({**REAL, **PBT, "experiment": experiment})
    trials = drive(workspace, begin_sweep(workspace, search, 4))
    copies = [trial for trial in trials if trial.parent is not None]
    assert len(trials) == 5
    assert [trial.state for trial in trials].count(TrialState.COMPLETED) == 4
    assert len(copies) == 1
    child, parent = copies[0], trials[copies[0].parent]
    ratio = child.params["train.lr"] / parent.params["train.lr"]
    assert min(abs(ratio - 0.8), abs(ratio - 1.25)) < 1e-9
    runs = {run.trial: run for run in workspace.store.runs(sweep="real")}
    assert runs[child.number].parent_id == runs[parent.number].id
    assert runs[child.number].parent_step == 2 * 64
    assert runs[child.number].epoch == 4
    assert rates[runs[child.number].id][-1] == torch.tensor(child.params["train.lr"]).item()
    assert rates[runs[parent.number].id][-1] == torch.tensor(parent.params["train.lr"]).item()


def test_a_fork_that_was_killed_is_made_anew(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver goes between the copy of a checkpoint and the queue."""
    search = load_search({**REAL, **PBT})
    driver = begin_sweep(workspace, search, 4)
    resume = workspace.store.resume

    class Killed(BaseException):
        pass

    def dies(run_id: str, *args: Any, **values: Any) -> RunRow:
        if workspace.store.get(run_id).parent_id is not None:
            raise Killed
        return resume(run_id, *args, **values)

    with monkeypatch.context() as patch:
        patch.setattr(workspace.store, "resume", dies)
        with pytest.raises(Killed):
            drive(workspace, driver)
    (left,) = [run for run in workspace.store.runs(sweep="real") if run.parent_id is not None]
    trials = drive(workspace, resume_sweep(workspace, "real", 4))
    assert [trial.state for trial in trials].count(TrialState.COMPLETED) == 4
    forks = [run for run in workspace.store.runs(sweep="real") if run.parent_id is not None]
    assert len(forks) == 1
    assert forks[0].id != left.id
    assert not workspace.folder(left.id).exists
    assert len(Sweeps(workspace.store.database).trials("real")) == 5


@pytest.mark.real_process
def test_from_python_with_a_worker_in_the_background(tmp_path: Path) -> None:
    from rlstudio import orchestrator

    config = {**REAL, "trials": 2, "pruner": {"kind": "asha", "rungs": [2], "eta": 2}}
    found = orchestrator.sweep(config, max_concurrent=2, runs_dir=tmp_path / "runs")
    assert found.best is not None
    assert len(found.trials) == 2
    assert [trial.state for trial in found.trials].count(TrialState.COMPLETED) == 1
    assert {run.reason for run in found.runs} == {Reason.NONE, Reason.PAUSED}
    again = orchestrator.sweep("real", resume=True, runs_dir=tmp_path / "runs")
    assert again.best == found.best
