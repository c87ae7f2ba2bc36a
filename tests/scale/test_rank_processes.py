"""Ranks as processes: however one of them or rank 0 ends, the run ends within seconds and goes on bit for bit."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rlstudio.core.errors import EnvFault, RankLost
from rlstudio.core.host.process import is_gone, process_of
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.folder.run_folder import list_runs
from rlstudio.experiment.run.signals import Interrupted
from rlstudio.experiment.training import build
from rlstudio.scale.ranks import follower
from rlstudio.scale.ranks.commands import Command, Order
from rlstudio.scale.ranks.link import announce, announced
from rlstudio.scale.ranks.other_ranks import OtherRanks
from rlstudio.scale.ranks.starting import children
from support import warm_python
from support.deadlines import PATIENCE
from support.experiments import tiny_data
from support.ranks import ThreadRanks
from support.sessions import resume, start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end

pytestmark = pytest.mark.own_process  # gloo is used here

DATA = tiny_data(
    "sac",
    runtime={"learners": 2},
    train={"epochs": 6, "steps_per_epoch": 32},
    ckpt={"every_seconds": None, "every_epochs": 1},
    rollout={"step_timeout": PATIENCE},
)
CONFIG = experiment_from(DATA)


RUN, FAILING = "support.rank_run", "support.failing_rank"


@pytest.fixture
def started(monkeypatch):
    """The processes that are started as ranks, in their order."""
    all_started = []
    original = children.Children._started

    def noted(self, *arguments):
        child = original(self, *arguments)
        all_started.append(process_of(child.process.pid))
        return child

    monkeypatch.setattr(children.Children, "_started", noted)
    return all_started


def train_until(session, epoch, act):
    """Act once when an epoch is done, and go on."""
    with session:
        for tick in session:
            if tick.report is not None and tick.epoch == epoch:
                act()


def wait_until_gone(*processes):
    until = time.monotonic() + PATIENCE
    while not all(map(is_gone, processes)):
        assert time.monotonic() < until, "a rank is left over"
        time.sleep(0.01)


def test_a_run_whose_processes_die_goes_on_bit_for_bit(tmp_path, started, monkeypatch):
    monkeypatch.setattr(children, "STOPPED_SECONDS", 0.5)
    with monkeypatch.context() as patched:
        patched.setattr(build, "other_ranks", ThreadRanks(tmp_path).of)
        whole = run_to_the_end(CONFIG, tmp_path / "whole")

    monkeypatch.setitem(warm_python.MODULES, RUN, warm_python.COMMANDS)
    command = [sys.executable, "-P", "-m", RUN, str(tmp_path / "run"), json.dumps(DATA), "1"]
    assert subprocess.Popen(command).wait(PATIENCE) == -signal.SIGKILL
    wait_until_gone(process_of(int((tmp_path / "run" / "rank").read_text())))
    folder = only_run(tmp_path / "run")

    with pytest.raises(Interrupted):
        train_until(resume(folder), 2, lambda: signal.raise_signal(signal.SIGTERM))
    assert folder.read_status().state == RunState.INTERRUPTED

    for epoch, signum, how in ((3, signal.SIGSTOP, "is stopped"), (4, signal.SIGKILL, "was ended by SIGKILL")):
        with pytest.raises(RankLost, match=rf"rank 1 \(process \d+\) {how}"):
            train_until(resume(folder), epoch, lambda signum=signum: os.kill(started[-1].pid, signum))
        status = folder.read_status()
        assert (status.state, status.reason) == (RunState.INTERRUPTED, Reason.RANK_LOST)
        assert "rank 1" in status.message
        assert is_gone(started[-1])

    train_until(resume(folder), 5, lambda: None)
    assert_same_result(folder, whole)
    assert len(started) == 4
    wait_until_gone(*started)


@pytest.mark.parametrize(("kind", "error"), [("fault", EnvFault), ("defect", RuntimeError)])
def test_what_a_rank_fails_by_is_what_the_run_fails_by(kind, error, monkeypatch):
    monkeypatch.setitem(warm_python.MODULES, FAILING, warm_python.COMMANDS)
    ranks = children.Children(FAILING, 2, PATIENCE)
    others = OtherRanks(2, ranks.meet, ranks.end)
    with pytest.raises(error, match=r"^rank 1: (env 1: it broke|ZeroDivisionError: division by zero)") as failed:
        others.answers(Command(Order.BUILD, content={"kind": kind}))
    assert "failing_rank.py" in failed.value.__notes__[0]
    with pytest.raises(RankLost, match="the ranks of the run are gone"):
        others.states()
    others.close()
    assert not ranks.processes


def test_a_run_that_is_refused_starts_no_rank(tmp_path, started):
    start(CONFIG, tmp_path).close()
    assert not started
    assert [status.state for status in list_runs(tmp_path)] == [RunState.STARTING]


def test_a_rank_connects_once_all_are_there(tmp_path, monkeypatch):
    """Connecting has 30 s; another rank may take minutes to start."""
    made = []
    monkeypatch.setattr(follower, "Link", lambda *place, **settings: made.append(place))
    given = follower.Given(2, 3, lifeline=-1, report=-1, nccl=False, folder=str(tmp_path))
    meeting = threading.Thread(target=follower._meet, args=(given,))
    meeting.start()
    until = time.monotonic() + PATIENCE
    while not announced(tmp_path, 2) and time.monotonic() < until:
        time.sleep(0.01)
    assert announced(tmp_path, 2)
    meeting.join(0.1)  # it would connect meanwhile
    assert made == []
    announce(tmp_path, 0)
    meeting.join(PATIENCE)
    assert [rank for _, rank, _ in made] == [2]
