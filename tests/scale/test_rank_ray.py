"""Ranks that Ray has placed: the bits of those of one machine, and an end that is noticed."""

import os
import signal
import time
from pathlib import Path

import pytest

from rlstudio.core.errors import ConfigError, Incompatible, RankLost
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.training.build import build
from rlstudio.scale import ray_start
from rlstudio.scale.ranks.starting import on_ray
from support.experiments import tiny
from support.processes import in_child
from support.sessions import resume, start

MARK = "TEST_OF"


def two_ranks(where):
    return tiny("ppo", runtime={"learners": 2, "ranks": where}, ckpt={"every_epochs": 1})


def train(session, after_first_step=None):
    """To the end; the hash of what it ended with."""
    with session:
        for number, _ in enumerate(session):
            if number == 0 and after_first_step is not None:
                after_first_step()
        return max(session.writer.checkpoints.list(), key=lambda info: info.step).state_hash


def rank_pids():
    """Processes of ranks that Ray has started for this test."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_ours = f"{MARK}={os.environ[MARK]}".encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if is_ours and b"rlstudio.experiment.training.rank_process" in words and b"meeting" in words[-2]:
            found.append(int(process.name))
    return found


def kill_actor(session):
    ranks = session.runtime.others._end.__self__
    ranks._ray.kill(ranks._placed[0].actor)
    while rank_pids():  # Ray answers before it has ended it, and a short run could be over by then
        time.sleep(0.01)


@pytest.mark.slow  # four times two processes that import torch
def test_ranks_in_ray_give_the_bits_of_processes_and_a_lost_one_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "STOPPED_SECONDS", 0.5)
    monkeypatch.setenv(MARK, str(os.getpid()))

    def act():
        whole = train(start(two_ranks("process"), tmp_path / "process"))
        session = start(two_ranks("ray"), tmp_path / "ray")
        folder = session.folder
        with pytest.raises(RankLost, match="rank 1"):
            train(session, lambda: os.kill(*rank_pids(), signal.SIGKILL))
        status = folder.read_status()
        assert (status.state, status.reason) == (RunState.INTERRUPTED, Reason.RANK_LOST)
        assert "was ended by SIGKILL" in status.message
        with pytest.raises(RankLost, match=r"rank 1 is stopped \(SIGSTOP\)"):
            train(resume(folder), lambda: os.kill(*rank_pids(), signal.SIGSTOP))
        assert not rank_pids(), "a rank is left over"
        session = resume(folder)
        with pytest.raises(RankLost, match="its node is gone, or Ray ended it"):
            train(session, lambda: kill_actor(session))
        assert train(resume(folder)) == whole
        assert not rank_pids()
        import ray  # by now its settings are in place

        ray.shutdown()

    assert in_child(act) == 0


def test_what_ranks_in_ray_need_is_asked_for_by_name(monkeypatch):
    with pytest.raises(ConfigError, match=r"runtime\.ranks: ray is where other learners are; set runtime\.learners"):
        tiny("ppo", runtime={"ranks": "ray"})
    monkeypatch.setattr(ray_start, "is_installed", lambda: False)
    with pytest.raises(Incompatible, match=r"runtime\.ranks: Ray is not installed; run `"):
        build(two_ranks("ray"))
    monkeypatch.undo()
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"runtime\.ranks: ray, and torchrun has started this process"):
        build(two_ranks("ray"))
