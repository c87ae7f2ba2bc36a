"""Real runs that an older RLStudio wrote and left half-way: this one goes on with them, to the same end.

`golden/run-v1` holds two such runs of format 1, a PPO and a DQN with its replay in segments of 64 rows. The end they
must reach is computed here: it depends on the machine. A failure after a change of what an algorithm computes says that
runs of older versions no longer go on exactly; that is then for the changelog.
"""

import shutil
from pathlib import Path

import pytest
import torch

import rlstudio
from rlstudio.core.errors import Incompatible
from rlstudio.core.run_state import RunState
from rlstudio.data.replay import buffer as replay_module
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.load import read_config
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.machine import differences
from support.tiny_runs import assert_same_result, run_to_the_end

GOLDEN = Path(__file__).parent.parent / "golden" / "run-v1"


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    monkeypatch.setattr(replay_module, "SEGMENT_ROWS", 64)


@pytest.fixture(params=["ppo", "dqn"])
def old(request, tmp_path):
    (path,) = GOLDEN.glob(f"*-{request.param}-*")
    shutil.copytree(path, tmp_path / path.name)
    return RunFolder(tmp_path / path.name)


def infos(run):
    """Newest first."""
    return Checkpoints(run.path, run.id, None).list()


def finished(run, *, allow_inexact: bool):
    with Session.open(run, read_config(run), allow_inexact=allow_inexact) as session:
        for _ in session:
            pass
    return run.read_status()


def test_every_checkpoint_of_version_1_is_migrated(old):
    checkpoints = Checkpoints(old.path, old.id, None)
    assert len(infos(old)) >= 3
    for info in infos(old):
        loaded = checkpoints.load(info.step)
        assert (info.version, loaded.content["version"]) == (1, 2)
        assert (info.origin, info.rlstudio, info.fields["origin"]) == (None, "", None)
        assert state_hash(loaded.content) == info.state_hash
    assert bool(infos(old)[0].segments) == ("-dqn-" in old.id)


def test_a_run_of_version_1_ends_like_one_that_never_stopped(old, tmp_path):
    whole = run_to_the_end(read_config(old), tmp_path / "whole")
    newest, *_ = infos(old)
    changed = differences(newest.fields["topology"], infos(whole)[0].fields["topology"])
    mine, theirs = finished(old, allow_inexact=bool(changed)), whole.read_status()

    assert mine.state == RunState.COMPLETED
    for count in ("env_steps", "gradient_steps", "epoch"):
        assert getattr(mine, count) == getattr(theirs, count)
    if changed:  # made on another machine: the same algorithm, not the same bits
        assert not mine.exact
    else:
        assert_same_result(old, whole)

    written = [info for info in infos(old) if info.step > newest.step]
    assert {(info.version, info.rlstudio) for info in written} == {(2, rlstudio.__version__)}
    for info in infos(old):
        Checkpoints(old.path, old.id, None).load(info.step)


def test_the_first_checkpoint_of_version_2_follows_the_last_of_version_1(old):
    newest, *_ = infos(old)
    with Session.open(old, read_config(old), allow_inexact=True) as session:
        for tick in session:
            if tick.env_steps > newest.step:
                break
    assert (infos(old)[0].version, infos(old)[0].parent) == (2, newest.sha256)
    assert infos(old)[1] == newest


def test_on_another_machine_it_goes_on_when_that_is_accepted(old, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    with pytest.raises(Incompatible, match=r"instructions .* -> another"):
        finished(old, allow_inexact=False)
    status = finished(old, allow_inexact=True)
    assert (status.state, status.epoch, status.env_steps) == (RunState.COMPLETED, 8, 8 * 64)
    assert not status.exact
    assert infos(old)[0].version == 2
