"""The queue with real processes: runners and workers that are killed, frozen and asked to stop. No run is lost, none is
run by two, and each goes on to the very state it would have reached undisturbed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from rlstudio.cli.app import main
from rlstudio.cli.arguments.experiments import ExperimentRequest, choose
from rlstudio.control.queue.launchers import Launcher, SubprocessLauncher
from rlstudio.control.queue.scheduler import Scheduler
from rlstudio.control.runs.start import enqueue
from rlstudio.control.store.reaper import TTL_SECONDS, Reaper
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import Slots
from rlstudio.control.store.workers import Workers
from rlstudio.control.sweep.sweeps import Sweeps
from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.errors import LeaseLost
from rlstudio.core.host import process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.config.imports import import_modules
from support.deadlines import PATIENCE
from support.experiments import tiny_yaml
from support.histories import state_after
from support.launcher import InProcessLauncher
from support.postgres import Postgres
from support.processes import in_child
from support.rlctl_process import LONG, end_all, start, wait_for, wait_until_trained
from support.warm_python import cold_starts

pytestmark = pytest.mark.real_process

S = RunState

HELD = tiny_yaml(
    name="held",
    env={"id": "Held-v0", "num_envs": 4, "vectorization": "sync"},
    train={"epochs": 5},
    eval={"final_episodes": 1},
    ckpt={"every_seconds": None, "every_epochs": 1},
    resources={"cpus": len(os.sched_getaffinity(0))},
)
"""One at a time, whatever the machine."""

HELD_WORLD = """\
import pathlib
import time

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

HERE = pathlib.Path(__file__).parent


class Held(CartPoleEnv):
    '''While there is a file `hold`, a run gets as far as its second checkpoint and no farther.'''

    def step(self, action):
        while (HERE / "hold").exists() and len(list(HERE.glob("runs/2*/checkpoints/step-*"))) > 1:
            (HERE / "held").touch()
            time.sleep(0.02)
        return super().step(action)


gymnasium.register("Held-v0", entry_point=Held, max_episode_steps=50)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path)
    (tmp_path / "hold").touch()
    with own_modules():
        yield tmp_path
    end_all()
    end_of_store(Workspace(tmp_path / "runs"))


@contextlib.contextmanager
def own_modules() -> Iterator[None]:
    """As in a process of its own: modules are those of this folder, not of one that an earlier test was in."""
    path = list(sys.path)
    sys.modules.pop("held_world", None)
    yield
    sys.path[:] = path
    sys.modules.pop("held_world", None)


def furnish(folder: Path) -> None:
    (folder / "held.yaml").write_text(HELD)
    (folder / "long.yaml").write_text(LONG)
    (folder / "held_world.py").write_text(HELD_WORLD)


def end_of_store(workspace: Workspace) -> None:
    """Whatever a failed test left running."""
    if not workspace.is_empty:
        alive = [worker.process for worker in Workers(workspace.store.database).alive()]
        drivers = [sweep.process for sweep in Sweeps(workspace.store.database).all()]
        for owner in [*alive, *drivers, *(run.process for run in workspace.store.runs(states=process_states()))]:
            process.send(owner, signal.SIGKILL)
        workspace.store.database.close()


def process_states() -> set[RunState]:
    return {S.STARTING, S.RUNNING, S.STOPPING}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The state that the run reaches in the foreground, in one piece."""
    folder = tmp_path_factory.mktemp("undisturbed")
    furnish(folder)
    with contextlib.chdir(folder), own_modules():
        assert rlctl("launch", "-f", "held.yaml", "--import", "held_world")[0] == 0
    status = Workspace(folder / "runs").find("last").status
    assert status.exact
    return str(status.state_hash)


def rlctl(*args: str) -> tuple[int, str]:
    """A command in this process, without the seconds it takes to start one; its exit code and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(list(args))
    return code, out.getvalue()


def workspace_of(place: Path) -> Workspace:
    return Workspace(place / "runs")


def launch(*args: str, file: str = "held.yaml") -> str:
    """Into the queue; returns the id."""
    modules = ["--import", "held_world"] if file == "held.yaml" else []
    code, out = rlctl("launch", "-f", file, "--detach", "--quiet", *modules, *args)
    assert code == 0
    return out.split()[-1]


def held(*overrides: str) -> ExperimentConfig:
    """The experiment, for what goes into the queue without a command."""
    import_modules(["held_world"])
    return choose(ExperimentRequest("held.yaml", None, None, overrides, ("held_world",), None, None, 1)).experiments[0]


def the_run(workspace: Workspace, run_id: str, *states: RunState) -> RunRow:
    """The run once it is in one of these states."""
    wait_for(lambda: workspace.store.get(run_id).state in states)
    return workspace.store.get(run_id)


def held_run(workspace: Workspace, run_id: str) -> RunRow:
    """The run once it stands still in the third epoch."""
    wait_for((workspace.runs_dir.parent / "held").exists)
    run = workspace.store.get(run_id)
    assert run.state == S.RUNNING
    assert run.has_process
    return run


def let_go(place: Path) -> None:
    (place / "hold").unlink()


def nobody_serves(workspace: Workspace) -> bool:
    return Workers(workspace.store.database).alive() == []


def assert_one_owner_at_a_time(workspace: Workspace, run_id: str, attempts: int) -> None:
    history = workspace.store.events(run_id)
    assert state_after(event.state for event in history) == workspace.store.get(run_id).state
    starts = [event.token for event in history if event.state == S.STARTING]
    assert starts == sorted(set(starts))
    assert len(starts) == attempts
    begun = [event.token for event in history if event.state == S.RUNNING]
    assert begun == sorted(set(begun))  # no ownership began twice
    tokens = [event.token for event in history]
    assert tokens == sorted(tokens)


# -- undisturbed ------------------------------------------------------------------------------------------------------


@pytest.mark.cold_start
def test_detached_runs_need_no_worker_of_ones_own(place: Path, undisturbed: str) -> None:
    workspace = workspace_of(place)
    first = launch("--key", "nightly")
    assert launch("--key", "nightly") == first
    (worker,) = Workers(workspace.store.database).alive() or [None]
    second = launch()
    assert workspace.store.get(second).state == S.QUEUED
    let_go(place)
    code, out = rlctl("logs", "-f", second)  # waits in the queue with it, and comes back when it has ended
    assert code == 0
    assert "completed" in out.splitlines()[-1]
    for run_id in (first, second):
        run = workspace.store.get(run_id)
        assert (run.state, run.attempt, run.state_hash) == (S.COMPLETED, 1, undisturbed)
        assert_one_owner_at_a_time(workspace, run_id, attempts=1)
    wait_for(lambda: nobody_serves(workspace))
    if worker is not None:
        wait_for(lambda: process.is_gone(worker.process))
    assert (place / "runs" / ".rlstudio" / "worker.log").read_text() == ""


def test_the_same_on_postgresql(place: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: str) -> None:
    let_go(place)
    with Postgres() as server, monkeypatch.context() as patch:
        patch.setenv(DATABASE_VARIABLE, server.new_database())
        workspace = workspace_of(place)
        run_id = launch()
        code, out = rlctl("logs", "-f", run_id)
        assert code == 0
        assert "completed" in out.splitlines()[-1]
        run = workspace.store.get(run_id)
        assert (run.state, run.state_hash) == (S.COMPLETED, undisturbed)
        assert_one_owner_at_a_time(workspace, run_id, attempts=1)
        wait_for(lambda: nobody_serves(workspace))
        assert not (place / "runs" / ".rlstudio" / "store.db").exists()
        end_of_store(workspace)


# -- killed -----------------------------------------------------------------------------------------------------------


def test_a_killed_runner_is_found_and_resumed(place: Path, undisturbed: str) -> None:
    workspace = workspace_of(place)
    run_id = launch()
    run = held_run(workspace, run_id)
    killed_at = time.time()
    process.send(run.process, signal.SIGKILL)
    wait_for(lambda: len(workspace.store.events(run_id)) > 3)
    found = workspace.store.events(run_id)[3]
    let_go(place)
    print(f"found after {datetime.fromisoformat(found.at).timestamp() - killed_at:.3f} s")
    assert (found.state, found.reason, found.token) == (S.INTERRUPTED, Reason.ORPHANED, run.token + 1)
    done = the_run(workspace, run_id, S.COMPLETED)
    assert done.state_hash == undisturbed
    assert_one_owner_at_a_time(workspace, run_id, attempts=2)
    resumed = [event for event in workspace.folder(run_id).events() if event["kind"] == "resumed"]
    assert [event["env_steps"] for event in resumed] == [128]
    wait_for(lambda: nobody_serves(workspace))


@pytest.mark.parametrize(
    "signum", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGINT], ids=lambda signum: signum.name
)
def test_runs_outlive_their_worker(place: Path, undisturbed: str, signum: signal.Signals) -> None:
    """As Ctrl-C does it, to everything at that terminal, or worse. The next one serves the rest; nothing runs twice."""
    workspace = workspace_of(place)
    cfg = held()
    first, second = enqueue(workspace, cfg).id, enqueue(workspace, cfg).id
    worker = start(place, "worker", start_new_session=True)
    run = held_run(workspace, first)
    os.killpg(worker.pid, signum)
    out, err = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == (0 if signum == signal.SIGINT else -signal.SIGKILL)
    assert f"{first}: started" in out
    assert err == ""
    assert nobody_serves(workspace)
    assert not process.is_gone(run.process)
    assert workspace.store.get(second).state == S.QUEUED
    let_go(place)
    code, out = rlctl("worker", "--until-idle")
    assert code == 0
    assert f"{second}: started" in out
    assert f"{first}: started" not in out
    for run_id in (first, second):
        done = the_run(workspace, run_id, S.COMPLETED)
        assert (done.state_hash, done.attempt) == (undisturbed, 1)
        assert_one_owner_at_a_time(workspace, run_id, attempts=1)


def test_both_killed(place: Path, undisturbed: str) -> None:
    """As after a power cut: whoever looks first sees it, the next worker goes on."""
    workspace = workspace_of(place)
    run_id = launch()
    run = held_run(workspace, run_id)
    (worker,) = Workers(workspace.store.database).alive()
    process.send(worker.process, signal.SIGKILL)
    process.send(run.process, signal.SIGKILL)
    wait_for(lambda: process.is_gone(worker.process) and process.is_gone(run.process))
    let_go(place)
    seen = workspace.find(run_id).status
    assert (seen.state, seen.reason) == (S.INTERRUPTED, Reason.ORPHANED)
    code, out = rlctl("worker", "--until-idle")
    assert code == 0
    assert f"{run_id}: queued again, attempt 2" in out
    assert workspace.store.get(run_id).state_hash == undisturbed
    assert_one_owner_at_a_time(workspace, run_id, attempts=2)


# -- frozen -----------------------------------------------------------------------------------------------------------


class Desk:
    """A scheduler in this process whose reaper's time stands still until it is moved on: no clock decides a test."""

    def __init__(self, workspace: Workspace, launcher: Launcher) -> None:
        self.workspace = workspace
        self.now = 0.0
        reaper = Reaper(workspace.store, clock=lambda: self.now, facts=workspace.folder_facts)
        slots = Slots(cpus=64, gpus=0, memory_mb=10**6)
        self.scheduler = Scheduler(workspace.store, slots, launcher, reaper=reaper, clock=lambda: self.now)

    def tick(self, seconds: float = 0.0) -> list[RunRow]:
        """After so long; returns what was taken away."""
        self.now += seconds
        return self.scheduler.tick().reaped


class Spawner(SubprocessLauncher):
    """Keeps what it started."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.started: list[subprocess.Popen[bytes]] = []

    def launch(self, run: RunRow, devices: Sequence[int]) -> subprocess.Popen[bytes]:
        found = super().launch(run, devices)
        assert isinstance(found, subprocess.Popen)
        self.started.append(found)
        return found


def frozen(workspace: Workspace, run: RunRow) -> None:
    process.send(run.process, signal.SIGSTOP)
    state = Path(f"/proc/{run.pid}/stat")
    wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")


def files(folder: Path) -> dict[str, bytes]:
    """All but what processes print: one that leaves says so there."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != "stdout.log"}


def test_a_frozen_runner_is_ended_within_the_tick_that_takes_its_run(place: Path) -> None:
    workspace = workspace_of(place)
    run_id = enqueue(workspace, held("resources.retries=0")).id
    spawner = Spawner(workspace)
    desk = Desk(workspace, spawner)
    assert desk.tick() == []
    run = held_run(workspace, run_id)
    frozen(workspace, run)
    assert desk.tick() == []  # the last sign of life
    assert desk.tick(TTL_SECONDS - 1) == []
    assert [taken.id for taken in desk.tick(1)] == [run_id]
    assert spawner.started[0].wait(PATIENCE) == -signal.SIGKILL
    assert workspace.store.get(run_id).reason == Reason.ORPHANED


def test_a_frozen_runner_that_continues_after_its_run_was_finished_by_another(
    place: Path, undisturbed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host where it cannot be ended from here."""
    workspace = workspace_of(place)
    run_id = enqueue(workspace, held()).id
    spawner = Spawner(workspace)
    desk = Desk(workspace, spawner)
    desk.tick()
    run = held_run(workspace, run_id)
    frozen(workspace, run)
    desk.tick()
    with monkeypatch.context() as patch:
        patch.setattr(process, "send", lambda *_: False)
        assert [taken.id for taken in desk.tick(TTL_SECONDS)] == [run_id]
    let_go(place)
    desk.tick(1)
    assert len(spawner.started) == 2
    done = the_run(workspace, run_id, S.COMPLETED)
    assert done.state_hash == undisturbed
    assert spawner.started[1].wait(PATIENCE) == 0
    before, history = files(workspace.folder(run_id).path), workspace.store.events(run_id)

    assert spawner.started[0].poll() is None
    process.send(run.process, signal.SIGCONT)
    assert spawner.started[0].wait(PATIENCE) == LeaseLost.exit_code
    assert files(workspace.folder(run_id).path) == before
    assert (workspace.store.get(run_id), workspace.store.events(run_id)) == (done, history)
    assert_one_owner_at_a_time(workspace, run_id, attempts=2)
    assert workspace.find(run_id).status.state == S.COMPLETED


def test_the_death_of_a_runner_is_seen_by_the_very_next_tick(place: Path) -> None:
    workspace = workspace_of(place)
    run_id = enqueue(workspace, held("resources.retries=0")).id
    spawner = Spawner(workspace)
    desk = Desk(workspace, spawner)
    desk.tick()
    held_run(workspace, run_id)
    spawner.started[0].kill()
    spawner.started[0].wait(PATIENCE)
    assert [taken.id for taken in desk.tick()] == [run_id]
    assert desk.scheduler.processes == {}


def test_a_runner_that_cannot_even_start_gives_its_run_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is damaged for it alone, say: it leaves before it has taken the run over."""
    workspace = workspace_of(place)
    run_id = enqueue(workspace, held()).id
    spawner = Spawner(workspace)
    desk = Desk(workspace, spawner)
    with monkeypatch.context() as patch:
        patch.setenv("RLSTUDIO_HOME", str(place / "held.yaml"))
        desk.tick()
    assert spawner.started[0].wait(PATIENCE) != 0
    desk.tick()
    run = workspace.store.get(run_id)
    assert (run.state, run.reason) == (S.INTERRUPTED, Reason.ORPHANED)
    assert "before it began" in run.message
    assert workspace.folder(run_id).log_path.read_text().startswith("rlctl: ")


# -- stop, cancel, resume, fork ---------------------------------------------------------------------------------------


def test_what_users_do_with_running_ones(place: Path) -> None:
    workspace = workspace_of(place)
    run_id = launch("resources.cpus=1", file="long.yaml")
    wait_until_trained(place)
    code, out = rlctl("stop", run_id)
    assert code == 0
    assert out.startswith(f"run {run_id}: INTERRUPTED at ")
    stopped = workspace.store.get(run_id)
    assert (stopped.state, stopped.reason, stopped.env_steps > 0) == (S.INTERRUPTED, Reason.USER, True)
    assert workspace.store.checkpoints(run_id)[0].state_hash == stopped.state_hash
    wait_for(lambda: nobody_serves(workspace))  # and nobody tries again what its user stopped

    assert rlctl("resume", run_id, "--detach")[0] == 0
    wait_for(lambda: workspace.find(run_id).status.env_steps > stopped.env_steps)
    code, out = rlctl("cancel", run_id)
    assert code == 0
    assert out.startswith(f"run {run_id}: CANCELLED at ")
    cancelled = workspace.store.get(run_id)
    assert (cancelled.state, cancelled.reason, cancelled.attempt) == (S.CANCELLED, Reason.USER, 2)
    wait_for(lambda: process.is_gone(cancelled.process))
    assert workspace.folder(run_id).read_status().state == S.CANCELLED
    assert rlctl("resume", run_id)[0] == 2
    assert_one_owner_at_a_time(workspace, run_id, attempts=2)

    code, out = rlctl("fork", run_id, f"train.epochs={cancelled.epoch + 2}", "--detach", "--quiet")
    assert code == 0
    child = the_run(workspace, out.split()[-1], S.COMPLETED)
    assert (child.parent_id, child.parent_step) == (run_id, cancelled.env_steps)
    assert child.env_steps > cancelled.env_steps
    wait_for(lambda: nobody_serves(workspace))


def test_stop_while_it_starts_leaves_the_worker_alone(place: Path) -> None:
    """Until the new process has taken the run over, its row names the scheduler, here: this very test."""
    workspace = workspace_of(place)
    run_id = enqueue(workspace, held()).id
    gate = Gated(workspace)
    desk = Desk(workspace, gate)
    desk.tick()
    assert workspace.store.get(run_id).process == process.this_process()
    stopping = start(place, "stop", run_id)
    the_run(workspace, run_id, S.STOPPING)
    (place / "go").touch()
    out, err = stopping.communicate(timeout=PATIENCE)
    assert (stopping.returncode, err) == (0, ""), out
    assert "INTERRUPTED at 0 steps" in out
    assert gate.started[0].wait(PATIENCE) in (-signal.SIGTERM, 128 + signal.SIGTERM)
    desk.tick()
    run = workspace.store.get(run_id)
    assert (run.state, run.reason) == (S.INTERRUPTED, Reason.USER)


# -- whoever starts runs dies in the middle of it ---------------------------------------------------------------------


class Gated(Spawner):
    """Its processes wait for a file `go` before they begin."""

    def launch(self, run: RunRow, devices: Sequence[int]) -> subprocess.Popen[bytes]:
        original = subprocess.Popen

        def behind_a_gate(command: list[str], **options: object) -> subprocess.Popen[bytes]:
            wait = 'while [ ! -e go ]; do sleep 0.02; done; exec "$@"'
            return original(["sh", "-c", wait, "sh", *command], **options)  # type: ignore[call-overload, no-any-return]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rlstudio.control.queue.launchers.subprocess.Popen", behind_a_gate)
            found = SubprocessLauncher.launch(self, run, devices)
        self.started.append(found)  # type: ignore[arg-type]
        return found  # type: ignore[return-value]


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(work: Callable[[], object]) -> None:
    assert os.waitstatus_to_exitcode(in_child(work)) == -signal.SIGKILL


def test_killed_between_the_row_and_the_reply(place: Path, undisturbed: str) -> None:
    """The user sees nothing, asks again with the same key, and has one run."""
    let_go(place)

    def enqueueing() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rlstudio.cli.commands.launch.print_queued", die)
            main(["launch", "-f", "held.yaml", "--import", "held_world", "--detach", "--key", "once"])

    dying(enqueueing)
    workspace = workspace_of(place)
    (lost,) = workspace.store.runs()
    assert lost.state == S.QUEUED
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlstudio.control.queue.service.ensure_worker", lambda _: None)
        assert launch("--key", "once") == lost.id
    desk = Desk(workspace, InProcessLauncher(workspace))
    desk.tick()
    assert workspace.store.get(lost.id).state_hash == undisturbed
    desk.tick(100)
    assert_one_owner_at_a_time(workspace, lost.id, attempts=1)
    assert workspace.store.count() == 1


def test_killed_between_claim_and_start(place: Path, undisturbed: str) -> None:
    let_go(place)
    workspace = workspace_of(place)
    run_id = enqueue(workspace, held()).id

    class Deadly:
        def launch(self, run: RunRow, devices: Sequence[int]) -> None:
            die()

    dying(lambda: Desk(workspace_of(place), Deadly()).tick())  # type: ignore[arg-type]
    assert workspace.store.get(run_id).state == S.STARTING
    desk = Desk(workspace, InProcessLauncher(workspace))
    assert [taken.id for taken in desk.tick()] == [run_id]
    desk.tick(1)
    run = workspace.store.get(run_id)
    assert (run.state, run.state_hash) == (S.COMPLETED, undisturbed)
    assert_one_owner_at_a_time(workspace, run_id, attempts=2)


@pytest.mark.parametrize("first", ["the runner", "the reaper"])
def test_killed_between_start_and_take_over(place: Path, undisturbed: str, first: str) -> None:
    """The runner is on its way, the scheduler is gone: whoever comes first has the run, the other one nothing."""
    let_go(place)
    workspace = workspace_of(place)
    run_id = enqueue(workspace, held()).id

    class Deadly(Gated):
        def launch(self, run: RunRow, devices: Sequence[int]) -> subprocess.Popen[bytes]:
            found = super().launch(run, devices)
            (place / "pid").write_text(str(found.pid))
            die()
            return found

    dying(lambda: Desk(workspace_of(place), Deadly(workspace_of(place))).tick())
    pid = int((place / "pid").read_text())
    desk = Desk(workspace, InProcessLauncher(workspace))
    if first == "the runner":
        (place / "go").touch()
        wait_for(lambda: workspace.store.get(run_id).has_process)
        assert desk.tick() == []
        run = the_run(workspace, run_id, S.COMPLETED)
        attempts = 1
    else:
        assert [taken.id for taken in desk.tick()] == [run_id]
        desk.tick(1)
        run = workspace.store.get(run_id)
        before, history = files(workspace.folder(run_id).path), workspace.store.events(run_id)
        (place / "go").touch()
        wait_for(lambda: process._start(pid) is None)
        assert "belongs to another owner" in workspace.folder(run_id).log_path.read_text()
        assert (files(workspace.folder(run_id).path), workspace.store.events(run_id)) == (before, history)
        attempts = 2
    assert (run.state, run.state_hash) == (S.COMPLETED, undisturbed)
    assert_one_owner_at_a_time(workspace, run_id, attempts)


# -- a sweep in the background ----------------------------------------------------------------------------------------

LONG_SWEEP = """\
name: endless
experiment: long.yaml
overrides: [resources.cpus=1]
trials: 1
space: {train.lr: {low: 1e-4, high: 1e-2, log: true}}
"""


def test_a_detached_sweep_is_killed_paused_stopped_resumed_and_removed(place: Path) -> None:
    workspace = workspace_of(place)
    (place / "sweep.yaml").write_text(LONG_SWEEP)

    def driver() -> process.Owner:
        return Sweeps(workspace.store.database).get("endless").process

    def state() -> str:
        return str(json.loads(rlctl("sweep", "show", "endless", "--json")[1])["state"])

    with cold_starts():  # the driver, its worker and their run as users have them; those after them are forked
        code, out = rlctl("sweep", "-f", "sweep.yaml", "--detach", "--json")
    begun = json.loads(out)
    assert (code, begun["state"], begun["pid"]) == (0, "RUNNING", driver().pid)
    wait_until_trained(place)
    (run,) = workspace.store.runs(sweep="endless")
    assert "trial 0: train.lr=" in Path(begun["log"]).read_text()
    assert rlctl("sweep", "logs", "endless")[1] == Path(begun["log"]).read_text()
    assert os.getsid(driver().pid) == driver().pid  # a closed terminal does not reach it
    assert rlctl("rm", run.id, "--yes")[0] == 2  # its sweep needs it

    process.send(driver(), signal.SIGKILL)
    wait_for(lambda: state() == "INTERRUPTED")
    assert [entry["state"] for entry in json.loads(rlctl("sweep", "ls", "--json")[1])] == ["INTERRUPTED"]

    assert rlctl("pause", run.id)[0] == 0
    paused = workspace.store.get(run.id)
    assert (paused.is_paused, paused.env_steps > 0) == (True, True)
    wait_for(lambda: workspace.folder(run.id).read_status().reason == Reason.PAUSED)  # written after the store
    assert workspace.store.checkpoints(run.id)[0].state_hash == paused.state_hash
    wait_for(lambda: nobody_serves(workspace))  # with nothing else to do, a worker leaves

    assert rlctl("sweep", "--resume", "endless", "--detach")[0] == 0
    wait_for(lambda: workspace.find(run.id).status.env_steps > paused.env_steps)
    code, out = rlctl("sweep", "stop", "endless")
    assert (code, out) == (0, "sweep endless: STOPPED, 1 run paused; go on with: rlctl sweep --resume endless\n")
    assert workspace.store.get(run.id).is_paused
    wait_for(lambda: process.is_gone(driver()))
    assert Path(begun["log"]).read_text().endswith("go on with: rlctl sweep --resume endless\n")
    assert rlctl("sweep", "logs", "-f", "endless")[1] == Path(begun["log"]).read_text()  # nothing more will come
    assert rlctl("sweep", "rm", "endless", "--yes")[0] == 0
    assert not workspace.folder(run.id).exists
    assert not Path(begun["log"]).exists()
    wait_for(lambda: nobody_serves(workspace))
