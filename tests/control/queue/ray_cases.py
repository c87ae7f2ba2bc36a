"""In a real Ray of two nodes: rollout workers, and runs that are spread, stopped, cancelled, and resumed when a node or
the worker is killed. These tests are run by `test_ray_runs.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlstudio.cli.app import main
from rlstudio.control.lifecycle import Desired
from rlstudio.control.queue import ray_cluster, runner
from rlstudio.control.queue.backends import Backends
from rlstudio.control.queue.scheduler import Scheduler
from rlstudio.control.runs.start import enqueue
from rlstudio.control.runs.stop import EndRequest
from rlstudio.control.store.reaper import Reaper
from rlstudio.control.store.resources import Slots
from rlstudio.control.sweep.actions import begin_sweep
from rlstudio.control.sweep.driver import Driver
from rlstudio.control.sweep.search import load_search
from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.errors import Incompatible
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.config.imports import import_modules
from rlstudio.experiment.training.build import build
from rlstudio.testing import LauncherContract
from support import worker_runs
from support.deadlines import PATIENCE
from support.patient_runs import MODULE, PATIENT, go, patient, until
from support.ray_nodes import RayNodes

pytestmark = [pytest.mark.real_process, pytest.mark.cold_start]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with RayNodes() as nodes:
        yield nodes


@pytest.fixture
def workspace(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: RayNodes
) -> Iterator[Workspace]:
    """The directory that runs are launched from has the module that they import, and later the file `go`."""
    monkeypatch.setattr("rlstudio.control.sweep.actions.ensure_worker", lambda workspace: None)
    monkeypatch.setenv(DATABASE_VARIABLE, postgres_url)
    (tmp_path / f"{MODULE}.py").write_text(PATIENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    import_modules([MODULE])
    workspace = Workspace(tmp_path / "runs")
    yield workspace
    workspace.store.database.close()


def scheduler(workspace: Workspace) -> Scheduler:
    """As a worker has it. No slots of this machine: what starts, starts in Ray."""
    # On a busy machine importing everything takes longer than the 30 s after which a silent process counts as lost.
    reaper = Reaper(workspace.store, ttl=PATIENCE, facts=workspace.folder_facts)
    return Scheduler(workspace.store, Slots(0), _Nothing(), elsewhere=Backends(workspace), reaper=reaper)


class _Nothing:
    def launch(self, run: Any, devices: Any) -> Any:
        raise AssertionError("a run of Ray was started here")


def running_at(workspace: Workspace, steps: int) -> list[str]:
    """Runs that are so far, by what their folders say."""
    rows = workspace.store.runs(states={RunState.RUNNING})
    return [run.id for run in rows if (workspace.folder_facts(run).get("env_steps") or 0) >= steps]  # type: ignore[operator]


def test_rollout_workers_of_two_nodes_give_the_bits_of_one_process(
    nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    there, here = (worker_runs.with_workers("ppo", backend) for backend in ("ray", "local"))
    assert worker_runs.run(there).state_hash == worker_runs.run(here).state_hash
    too_many = worker_runs.with_workers("ppo", "ray", workers=4)
    with pytest.raises(Incompatible, match=r"4 workers ask for a CPU each, and .* has 2; use 2 or fewer"):
        build(too_many)


def test_a_sweep_over_two_nodes_ends_as_a_local_one_though_a_node_dies(
    nodes: RayNodes, workspace: Workspace, tmp_path: Path
) -> None:
    space = {"train.lr": {"low": 1e-4, "high": 1e-2, "log": True}}
    data = {"name": "spread", "trials": 2, "sampler": {"kind": "random", "seed": 1}, "space": space}
    place = {"backend": "ray", "address": nodes.address}
    there = load_search({**data, "experiment": patient(**place)}, imports=[MODULE])
    driver, worker = begin_sweep(workspace, there), scheduler(workspace)
    assert driver.max_concurrent == 2  # one core on each of two nodes

    def step() -> None:
        driver.step()
        worker.tick()

    until(lambda: len(workspace.store.runs(states={RunState.RUNNING})) == 2, step)
    placed = ray_cluster.runs_by_node(nodes.ray)
    assert sorted(map(len, placed.values())) == [1, 1]
    lost = next(node for node in nodes.nodes if node.unique_id in placed or node.node_id in placed)
    (hit,) = placed[lost.node_id]
    nodes.kill(lost)
    until(lambda: workspace.store.get(hit).state != RunState.RUNNING, step)
    go()
    until(lambda: driver.step().is_over, worker.tick)
    assert {run.state for run in workspace.store.runs()} == {RunState.COMPLETED}
    assert workspace.store.get(hit).attempt > 1
    assert {run.attempt for run in workspace.store.runs() if run.id != hit} == {1}

    here = load_search({**data, "experiment": patient()}, imports=[MODULE])
    local = Workspace(tmp_path / "local", f"sqlite:///{tmp_path}/local.db")
    other = begin_sweep(local, here, 2)
    while not (progress := other.step()).is_over:
        for run in [run for run in progress.runs if run.state == RunState.QUEUED] or local.store.runs():
            if local.store.get(run.id).state == RunState.QUEUED:
                claimed = local.store.claim(run.id, this_process())
                _train_here(claimed, local)
    assert outcome(driver, workspace) == outcome(other, local)
    local.store.database.close()


def _train_here(run: Any, workspace: Workspace) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATABASE_VARIABLE, workspace.url)
        assert runner.main(run.id, run.token, workspace.runs_dir) == 0


def outcome(driver: Driver, workspace: Workspace) -> list[Any]:
    trials = driver.step().trials
    hashes = {run.trial: run.state_hash for run in workspace.store.runs()}
    return [(trial.number, trial.params, trial.results, trial.state, hashes[trial.number]) for trial in trials]


def test_a_run_in_ray_is_shown_stopped_resumed_and_cancelled(
    nodes: RayNodes, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    run = enqueue(workspace, experiment_from(patient(backend="ray", address=nodes.address), imports=[MODULE]))
    worker = scheduler(workspace)

    def state() -> RunState:
        worker.tick()
        return workspace.store.get(run.id).state

    until(lambda: state() == RunState.RUNNING)
    capsys.readouterr()
    assert main(["cluster", "status", "--address", nodes.address, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (busy,) = [node for node in shown["nodes"] if node["runs"]]
    assert (busy["runs"], busy["total"]["cpus"], shown["waiting"]) == ([run.id], 1.0, [])
    request = EndRequest(workspace, run.id, Desired.STOP)
    until(lambda: request.deliver().status.state == RunState.INTERRUPTED)
    assert workspace.store.get(run.id).reason == Reason.USER
    until(lambda: state() == RunState.INTERRUPTED and not worker.processes)
    workspace.store.resume(run.id)
    until(lambda: state() == RunState.RUNNING)
    assert workspace.store.get(run.id).attempt == 2
    end = EndRequest(workspace, run.id, Desired.CANCEL)
    until(lambda: end.deliver().status.state == RunState.CANCELLED)
    until(lambda: not worker.processes, worker.tick)
    until(lambda: ray_cluster.runs_by_node(nodes.ray) == {})


def test_the_death_of_the_worker_ends_no_run_and_starts_none_twice(
    nodes: RayNodes, workspace: Workspace, tmp_path: Path
) -> None:
    run = enqueue(workspace, experiment_from(patient(backend="ray", address=nodes.address), imports=[MODULE]))
    with (tmp_path / "worker.log").open("wb") as log:
        command = [sys.executable, "-P", "-m", "rlstudio.control.queue.service", str(workspace.runs_dir)]
        worker = subprocess.Popen(command, stdout=log, stderr=log)
    until(lambda: workspace.store.get(run.id).state == RunState.RUNNING)
    worker.kill()
    worker.wait()
    go()
    until(lambda: workspace.store.get(run.id).state == RunState.COMPLETED, workspace.reap)
    ended = workspace.store.get(run.id)
    assert (ended.attempt, ended.epoch) == (1, 2)
    assert [event.state for event in workspace.store.events(run.id)].count(RunState.STARTING) == 1
    until(lambda: ray_cluster.runs_by_node(ray_cluster.connect(nodes.address)) == {})  # nobody had to clear it away


class TestLauncher_ray(LauncherContract):
    part = "ray"
    patience = PATIENCE

    @pytest.fixture
    def workspace(  # type: ignore[override]
        self, nodes: RayNodes, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Workspace]:
        monkeypatch.setenv(DATABASE_VARIABLE, postgres_url)
        monkeypatch.setenv("RAY_ADDRESS", nodes.address)
        workspace = Workspace(tmp_path / "runs")
        yield workspace
        workspace.store.database.close()
