"""Runs as jobs of Slurm, whose commands are stand-ins that run the script as a real process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlstudio.cli.app import main
from rlstudio.control.lifecycle import Desired
from rlstudio.control.queue import runner, slurm
from rlstudio.control.queue.backends import Backends
from rlstudio.control.queue.launchers import Room
from rlstudio.control.queue.scheduler import Scheduler
from rlstudio.control.queue.slurm import SlurmLauncher
from rlstudio.control.runs.place import check_place
from rlstudio.control.runs.start import enqueue, request_of
from rlstudio.control.store.reaper import Reaper
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import Slots
from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.errors import ConfigError, UserError
from rlstudio.core.host.process import this_process
from rlstudio.core.resources import ResourcesConfig
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.config.imports import import_modules
from rlstudio.testing import LauncherContract
from support.deadlines import PATIENCE
from support.experiments import tiny
from support.patient_runs import MODULE, PATIENT, go, patient, until
from support.slurm_stand_in import SlurmStandIn


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmStandIn:
    stand_in = SlurmStandIn(tmp_path / "slurm")
    monkeypatch.setenv("PATH", stand_in.path)
    monkeypatch.setattr(slurm, "ASK_SECONDS", 0.0)
    return stand_in


@pytest.fixture
def workspace(
    jobs: SlurmStandIn, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    monkeypatch.setenv(DATABASE_VARIABLE, postgres_url)
    workspace = Workspace(tmp_path / "runs")
    yield workspace
    workspace.store.database.close()


def scheduler(workspace: Workspace) -> Scheduler:
    reaper = Reaper(workspace.store, ttl=PATIENCE, facts=workspace.folder_facts)
    nothing = SlurmLauncher(workspace, lambda run: ResourcesConfig())
    return Scheduler(workspace.store, Slots(0), nothing, elsewhere=Backends(workspace), reaper=reaper)


def queued(workspace: Workspace, **resources: object) -> RunRow:
    return workspace.store.create(request_of(tiny(resources={"backend": "slurm", **resources})))


@pytest.mark.real_process
@pytest.mark.cold_start
def test_a_run_goes_on_in_its_job_after_the_time_limit_and_after_a_preemption(
    jobs: SlurmStandIn, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{MODULE}.py").write_text(PATIENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    import_modules([MODULE])
    run = enqueue(workspace, experiment_from(patient(backend="slurm", time_limit="10:00"), imports=[MODULE]))
    worker = scheduler(workspace)

    def runs_for_the(attempt: int) -> bool:
        worker.tick()
        now = workspace.store.get(run.id)
        return (now.state, now.attempt) == (RunState.RUNNING, attempt)

    until(lambda: runs_for_the(1))
    jobs.near_time_limit("1")
    until(lambda: runs_for_the(2))
    jobs.preempt("1")
    until(lambda: runs_for_the(3))
    go()
    until(lambda: not worker.processes, worker.tick)
    ended = workspace.store.get(run.id)
    assert (ended.state, ended.epoch, ended.exact) == (RunState.COMPLETED, 2, True)
    assert not jobs.has("2.sh")  # one job all along: the worker left the requeued run to Slurm
    events = [(event.state, event.reason) for event in workspace.store.events(run.id)]
    assert events.count((RunState.INTERRUPTED, Reason.SIGNAL)) == 2


def test_a_job_that_waits_is_shown_and_cancelled_in_slurm_too(
    jobs: SlurmStandIn, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # no Ray of somebody else's
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    jobs.hold()
    run, worker = queued(workspace), scheduler(workspace)
    worker.tick()
    assert main(["cluster", "status"]) == 0
    assert capsys.readouterr().out.split()[-4:] == ["1", "PENDING", "node1", run.id]
    workspace.store.ask(run.id, Desired.CANCEL)
    until(lambda: not worker.processes, worker.tick)
    assert workspace.store.get(run.id).state == RunState.CANCELLED
    assert jobs.has("cancelled")
    assert slurm.list_jobs() == []


def test_a_run_whose_job_is_still_there_is_not_submitted_again(jobs: SlurmStandIn, workspace: Workspace) -> None:
    jobs.hold()
    run = queued(workspace)
    launcher = Backends(workspace)(run)
    assert launcher is not None
    assert launcher.room(run, []) == Room.NOW
    job = launcher.launch(workspace.store.claim(run.id, this_process()), [])
    assert launcher.room(run, []) == Room.THERE
    assert launcher.room(queued(workspace), []) == Room.NOW
    assert job.poll() is None
    slurm._ask(["scancel", "1"])
    assert (job.poll(), launcher.room(run, [])) == (1, Room.NOW)


def test_the_script_asks_for_what_the_run_asks_for(workspace: Workspace) -> None:
    run = queued(workspace, cpus=4, gpus=2, memory_mb=3000, partition="long", account="lab", time_limit="1-00:00:00")
    launcher = Backends(workspace)(run)
    assert isinstance(launcher, SlurmLauncher)
    lines = launcher.script(run, "/runs/x/stdout.log").splitlines()
    assert lines[0] == "#!/bin/bash"
    assert {line for line in lines if line.startswith("#SBATCH")} == {
        f"#SBATCH --job-name=rlstudio-{run.id}",
        "#SBATCH --output=/runs/x/stdout.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
        "#SBATCH --signal=B:USR1@120",
        "#SBATCH --ntasks=1",
        "#SBATCH --cpus-per-task=4",
        "#SBATCH --gpus=2",
        "#SBATCH --mem=3000M",
        "#SBATCH --partition=long",
        "#SBATCH --account=lab",
        "#SBATCH --time=1-00:00:00",
    }


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("/runs/x/stdout.log", "/runs/x/stdout.log"),
        ("/my runs/50%j#1", '"/my runs/50%%j#1"'),
        ('/a"b\\c', r'"/a\"b\\c"'),
    ],
)
def test_a_path_is_what_sbatch_reads(path: str, option: str) -> None:
    assert slurm.quoted(path) == option


def test_no_path_begins_a_line_of_the_script() -> None:
    with pytest.raises(UserError, match=r"cannot name a path with a line break"):
        slurm.quoted("/runs\n#SBATCH --wrap=x\ntouch /tmp/x/stdout.log")


def test_what_sbatch_refuses_is_the_message_of_the_run(jobs: SlurmStandIn, workspace: Workspace) -> None:
    (jobs.programs / "sbatch").write_text(
        "#!/bin/bash\necho 'sbatch: error: invalid partition specified: x' >&2; exit 1\n"
    )
    run = queued(workspace, partition="x")
    scheduler(workspace).tick()
    now = workspace.store.get(run.id)
    assert (now.state, now.reason) == (RunState.INTERRUPTED, Reason.STORAGE)
    assert now.message.endswith("could not be started: sbatch: error: invalid partition specified: x")


def test_a_start_without_a_claim_takes_only_what_is_to_go_on(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "OWNER_SECONDS", 0.0)
    waits, lost, had, cancelled = (queued(workspace) for _ in range(4))
    for run in (lost, had):
        claimed = workspace.store.claim(run.id, this_process())
        if run is lost:
            workspace.store.move(run.id, claimed.token, RunState.INTERRUPTED, Reason.SIGNAL)
    workspace.store.ask(cancelled.id, Desired.CANCEL)
    for run in (waits, lost):
        token = runner._claimed_again(workspace, run.id)
        now = workspace.store.get(run.id)
        assert (now.state, now.token, now.process) == (RunState.STARTING, token, this_process())
    assert runner._claimed_again(workspace, had.id) is None
    assert runner.main(cancelled.id, None, workspace.runs_dir) == 0
    assert workspace.store.get(cancelled.id).state == RunState.CANCELLED


def test_slurm_needs_its_commands_and_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, asked = Workspace(tmp_path / "runs"), ResourcesConfig(backend="slurm")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^resources\.backend: slurm needs sbatch, which is not on the PATH; launch"):
        check_place(workspace, asked)
    monkeypatch.setenv("PATH", SlurmStandIn(tmp_path / "slurm").path + os.pathsep + os.defpath)
    with pytest.raises(UserError, match=r"store\.db: resources\.backend: Slurm starts runs on other machines, and a"):
        check_place(workspace, asked)


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ({"partition": "long"}, r"resources\.partition: is for backend: slurm, and the backend is local"),
        ({"backend": "slurm", "partition": "a\n#SBATCH --wrap=x"}, r"resources\.partition: "),
        ({"backend": "slurm", "time_limit": "soon"}, r"resources\.time_limit: expected minutes, HH:MM:SS or DAYS-HH"),
        ({"backend": "slurm", "time_limit": "2:59"}, r"resources\.time_limit: 2:59 is too short, .* 5 minutes or more"),
        ({"backend": "slurm", "account": "a b"}, r"resources\.account: expected a name of 1 to 64 letters"),
        ({"backend": "slurm", "gpus": 0.5}, r"resources\.gpus: 0\.5 of a GPU can be had with backend: ray alone"),
    ],
)
def test_settings_of_slurm_are_checked(section: dict[str, object], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        tiny(resources=section)


@pytest.mark.parametrize(
    ("written", "read"), [(30, "30"), (0, "0"), ("5:00", "5:00"), ("1-12", "1-12"), ("1-12:00:00", "1-12:00:00")]
)
def test_a_time_limit_may_be_a_number_of_minutes(written: object, read: str) -> None:
    assert tiny(resources={"backend": "slurm", "time_limit": written}).resources.time_limit == read


@pytest.mark.real_process
class TestLauncher_slurm(LauncherContract):
    part = "slurm"
    patience = PATIENCE

    @pytest.fixture
    def workspace(self, workspace: Workspace) -> Workspace:  # type: ignore[override]
        """With the server and the commands of this module."""
        return workspace
