"""Workers that die, hang, exit or give numbers that are none: replaced, and the run ends as if nothing had happened."""

import os
import signal
import time

import pytest

from rlstudio.core.errors import EnvFault
from rlstudio.core.run_state import RunState
from rlstudio.envs.gym import worker_handle
from rlstudio.experiment.folder.run_folder import TRACEBACK, RunFolder
from support.deadlines import PATIENCE
from support.env_toys import register_toys
from support.processes import fork
from support.sessions import resume, start
from support.worker_runs import opened, pids, run, with_workers

SYNC = {"env": {"vectorization": "sync"}}
NORMALIZED = {**SYNC, "policy": {"network": {"normalize_observations": True}}}
SETTINGS = {"ppo": NORMALIZED, "sac": SYNC}
"""A fresh worker of PPO gets the normalizer, too."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Nobody waits before a restart."""
    monkeypatch.setattr(worker_handle, "PAUSES", (0.0,))
    register_toys()


def faulty(fault, backend="process", max_restarts=3, **kwargs):
    env = {"id": "toys/Faulty-v0", "kwargs": {"fault": fault, **kwargs}}
    return with_workers("ppo", backend, env=env, train={"epochs": 4}, rollout={"max_restarts": max_restarts})


@pytest.fixture(scope="module")
def undisturbed():
    return {algo: run(with_workers(algo, "local", **changes)).state_hash for algo, changes in SETTINGS.items()}


@pytest.mark.parametrize(
    ("algo", "number"),
    [
        ("ppo", signal.SIGKILL),
        ("sac", signal.SIGSTOP),
        pytest.param("ppo", signal.SIGSTOP, marks=pytest.mark.slow),
        pytest.param("sac", signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_killed_and_stopped_workers_are_replaced_and_no_bit_changes(algo, number, undisturbed, monkeypatch):
    monkeypatch.setattr(worker_handle, "SILENT", 0.2)

    def strike(step, built):
        if step == 1:
            for pid in pids(built):  # all at once
                os.kill(pid, number)

    ended = run(with_workers(algo, "process", **SETTINGS[algo]), strike)
    assert ended.state_hash == undisturbed[algo]
    assert ended.exact is None
    cause = "killed by SIGKILL" if number == signal.SIGKILL else "hung: stopped by a signal"
    assert [reason.split(":")[0] for reason in ended.restarts] == ["envs 0 to 1", "envs 2 to 3"]
    assert all(cause in reason for reason in ended.restarts)


@pytest.mark.parametrize("fault", ["exit", "raise", "nan"])
def test_a_worker_that_fails_in_the_midst_of_a_rollout_collects_it_anew(fault, tmp_path):
    once = str(tmp_path / "once")
    ended = run(faulty(fault, at=50, once=once))
    (tmp_path / "once").touch()
    assert ended.state_hash == run(faulty(fault, "local", at=50, once=once)).state_hash
    assert len(ended.restarts) in (1, 2), "both slices may come there before the file is seen"
    said = {"exit": "exited with code 3", "raise": "raised", "nan": "gave next_observations that are not finite"}
    assert said[fault] in ended.restarts[0]


def test_an_environment_that_always_gives_nan_is_left_to_the_row_guard():
    ended = [run(faulty("nan", backend, at=9)) for backend in ("local", "process")]
    assert ended[0].state_hash == ended[1].state_hash
    assert ended[1].metrics[-1]["guard/bad_row_share"] > 0
    assert 1 <= len(ended[1].restarts) <= 4, "a fresh worker said the same: it is not replaced again for that"


def test_a_worker_that_fails_again_and_again_ends_the_run():
    with pytest.raises(EnvFault, match=r"raised .*; gave up after 1 restarts"):
        run(faulty("raise", at=50, max_restarts=1))


def test_a_worker_that_cannot_start_fails_the_run_with_its_traceback(tmp_path, monkeypatch):
    monkeypatch.setenv("ONLY_PROCESS", str(os.getpid()))
    cfg = with_workers("ppo", "process", env={"id": "toys/OnlyHere-v0"}, rollout={"max_restarts": 1})
    with start(cfg, tmp_path) as session, pytest.raises(EnvFault, match="no display in this process"):
        list(session)
    status = session.status
    assert (status.state, status.reason) == (RunState.FAILED, "env_fault")
    assert "no display in this process" in status.message
    assert "gave up after 1 restarts" in status.message
    kept = (session.folder.artifacts_path / TRACEBACK).read_text()
    assert "in a worker process:" in kept
    assert 'raise OSError("no display in this process")' in kept


def test_restarts_are_events_and_a_metric(tmp_path):
    cfg = with_workers("ppo", "process", **SYNC)
    with start(cfg, tmp_path) as session:
        for number, _ in enumerate(session):
            if number == 0:
                os.kill(session.runtime.crew._hosts[1].pid, signal.SIGKILL)
        folder = session.folder
    events = [event for event in folder.events() if event["kind"] == "env_restarted"]
    assert [event["reason"] for event in events] == ["envs 2 to 3: its worker killed by SIGKILL"]
    assert session.status.exact
    assert session.status.state == RunState.COMPLETED


def test_a_killed_run_leaves_no_worker_and_resumes_exactly(tmp_path):
    cfg = with_workers("ppo", "process", train={"epochs": 6}, ckpt={"every_epochs": 1}, **SYNC)
    noted = tmp_path / "pids"

    def trains():
        with start(cfg, tmp_path / "runs") as session:
            for number, _ in enumerate(session):
                if number == 3:
                    noted.write_text(" ".join(str(host.pid) for host in session.runtime.crew._hosts))
                    os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitpid(fork(trains, starts_workers=True), 0)[1] == signal.SIGKILL
    until = time.monotonic() + PATIENCE
    for pid in map(int, noted.read_text().split()):
        while _is_running(pid):
            assert time.monotonic() < until, "a worker outlived the run"
            time.sleep(0.01)
    (run_path,) = (tmp_path / "runs").iterdir()
    with resume(RunFolder(run_path)) as session:
        list(session)
        assert session.status.exact
        assert _last_hash(session) == _uninterrupted(cfg, tmp_path)


def _is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # it may go between any two lines
        return False


def _uninterrupted(cfg, tmp_path):
    local = cfg.model_copy(update={"rollout": cfg.rollout.model_copy(update={"backend": "local"})})
    with start(local, tmp_path / "other") as session:
        list(session)
        return _last_hash(session)


def _last_hash(session):
    return max(session.writer.checkpoints.list(), key=lambda info: info.step).state_hash


def test_workers_are_gone_when_the_run_is_closed():
    with opened(with_workers("ppo", "process")) as built:
        built.trainer.train_step()
        started = pids(built)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in started)
