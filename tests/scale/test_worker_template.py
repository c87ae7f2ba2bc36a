"""The process that workers are forked from: what becomes of it and of workers when one of them dies."""

import os
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from rlstudio.core.errors import EnvFault
from rlstudio.core.host.process import is_gone, process_of
from rlstudio.envs.gym import worker_handle
from rlstudio.scale.workers import forked, template
from rlstudio.scale.workers.forked import WorkerTemplate
from support.deadlines import PATIENCE
from support.env_toys import register_toys
from support.processes import fork
from support.worker_runs import opened, pids, run, with_workers

SYNC = {"env": {"vectorization": "sync"}}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(worker_handle, "PAUSES", (0.0,))
    monkeypatch.setattr(forked, "SILENT", 0.2)


def template_of(built):
    return built.runtime.crew.backend.template


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_until_gone(*processes):
    until = time.monotonic() + PATIENCE
    while not all(map(is_gone, processes)):
        assert time.monotonic() < until, "a process is left over"
        time.sleep(0.01)


def test_all_workers_come_from_one_process_without_threads_that_ends_with_the_run():
    with opened(with_workers("ppo", "process", workers=4)) as built:
        built.trainer.train_step()
        own = template_of(built).pid
        assert {parent_of(pid) for pid in pids(built)} == {own}
        assert os.listdir(f"/proc/{own}/task") == [str(own)]
        processes = [process_of(pid) for pid in (own, *pids(built))]
    wait_until_gone(*processes)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_template_that_dies_or_is_stopped_takes_no_worker_along_and_is_replaced(number):
    """Workers that it had forked go on; when one of them dies too, a fresh template forks the next."""
    templates = []

    def strike(step, built):
        templates.append(template_of(built).pid)
        if step == 0:
            os.kill(templates[0], number)
        if step == 1:
            os.kill(pids(built)[0], signal.SIGKILL)

    ended = run(with_workers("ppo", "process", **SYNC), strike)
    assert ended.state_hash == run(with_workers("ppo", "local", **SYNC)).state_hash
    assert len(ended.restarts) == 1
    assert templates[0] == templates[1] != templates[2]


def test_a_template_that_cannot_start_says_so(monkeypatch):
    monkeypatch.setattr(forked, "MODULE", "rlstudio.scale.workers.no_such_module")
    with pytest.raises(EnvFault, match=r"the process that workers are forked from exited with code 1"):
        run(with_workers("ppo", "process"))


def test_how_a_worker_ended_is_known_though_it_is_no_child_of_ours():
    workers, (ours, theirs), (lifeline, end) = WorkerTemplate(), socket.socketpair(), os.pipe()
    memory = os.memfd_create("test")
    os.ftruncate(memory, 1 << 16)
    with ours, theirs, closing(workers):
        for number in (signal.SIGKILL, signal.SIGTERM):
            worker = workers.fork((theirs.fileno(), lifeline, memory, memory))
            with pytest.raises(subprocess.TimeoutExpired):
                worker.wait(0)
            os.kill(worker.pid, number)
            assert worker.wait(PATIENCE) == worker.wait() == worker.poll() == -number
            worker.kill()  # of one that is gone: nothing
        worker = workers.fork((theirs.fileno(), lifeline, memory, memory))
        os.kill(workers.pid, signal.SIGKILL)
        worker.kill()
        assert worker.wait(PATIENCE) is None, "who could have said it is gone"
    for descriptor in (memory, lifeline, end):
        os.close(descriptor)


def test_a_worker_has_the_environment_of_the_moment_that_it_is_forked_at(monkeypatch):
    register_toys()

    def strike(step, built):
        if step == 0:
            monkeypatch.setenv("ONLY_PROCESS", str(os.getpid()))
            os.kill(pids(built)[0], signal.SIGKILL)

    cfg = with_workers("ppo", "process", env={"id": "toys/OnlyHere-v0"}, rollout={"max_restarts": 1})
    with pytest.raises(EnvFault, match="no display in this process"):
        run(cfg, strike)


def test_a_run_that_is_killed_leaves_no_template():
    read, write = os.pipe()

    def trains():
        with opened(with_workers("ppo", "process")) as built:
            built.trainer.train_step()
            os.write(write, " ".join(map(str, [template_of(built).pid, *pids(built)])).encode())
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitpid(fork(trains, starts_workers=True), 0)[1] == signal.SIGKILL
    wait_until_gone(*(process_of(int(pid)) for pid in os.read(read, 1 << 10).split()))
    os.close(read)
    os.close(write)


@pytest.mark.cold_start
def test_nothing_that_the_template_imports_starts_a_thread():
    with opened(with_workers("sac", "process", **SYNC)) as built:
        built.trainer.train_step()
        own = template_of(built).pid
        assert template.MODULE in Path(f"/proc/{own}/cmdline").read_text()
        assert os.listdir(f"/proc/{own}/task") == [str(own)]
