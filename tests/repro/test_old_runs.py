"""Real runs that an older RLStudio wrote and left half-way: this one goes on with them, to the same end.

`golden/run-v1` and `golden/run-v2` hold two such runs each, a PPO and a DQN with its replay in segments of 64 rows.
Those of version 2 carry the fingerprint of the machine they were made on: where it is that of this one, they must reach
the end of a run that never stopped, bit for bit; elsewhere the same counts. A failure after a change of what an
algorithm computes says that runs of older versions no longer go on exactly; that is then for the changelog.
"""

import shutil

import pytest
import torch

import rlstudio
from rlstudio.core.errors import Incompatible
from rlstudio.core.run_state import RunState
from rlstudio.data.replay import buffer as replay_module
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.checkpoint.manifest import OWN
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.load import read_config
from rlstudio.experiment.run.run_writer import ResumeTerms
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training import machine
from rlstudio.experiment.training.machine import differences, have_same_probe
from rlstudio.experiment.training.numerics import PROBE
from support.golden_runs import GOLDEN, SEGMENT_ROWS
from support.sessions import start
from support.tiny_runs import assert_same_result, run_to_the_end


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    monkeypatch.setattr(replay_module, "SEGMENT_ROWS", SEGMENT_ROWS)


def copied(version, algo, tmp_path):
    (path,) = (GOLDEN / f"run-v{version}").glob(f"*-{algo}-*")
    shutil.copytree(path, tmp_path / path.name)
    return RunFolder(tmp_path / path.name)


@pytest.fixture(params=["ppo", "dqn"])
def old(request, tmp_path):
    """Of version 1."""
    return copied(1, request.param, tmp_path)


@pytest.fixture(params=["1-ppo", "1-dqn", "2-ppo", "2-dqn"])
def golden(request, tmp_path):
    version, algo = request.param.split("-")
    return copied(int(version), algo, tmp_path)


def infos(run):
    """Newest first."""
    return Checkpoints(run.path, run.id, None).list()


LATER_METRICS = {"train/loss", "train/epsilon", "data/replay_fill", "data/replay_age", "data/duplicate_share"}
"""That the golden runs did not have yet when they were stopped."""


def finished(run, *, allow_inexact: bool):
    with Session.open(run, read_config(run), terms=ResumeTerms(allow_inexact)) as session:
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


def test_a_golden_run_ends_like_one_that_never_stopped(golden, tmp_path):
    whole = run_to_the_end(read_config(golden, ["eval.at_start=false"]), tmp_path / "whole")  # there was none then
    newest, *_ = infos(golden)
    then, now = newest.fields["topology"], infos(whole)[0].fields["topology"]
    changed = differences(then, now)
    mine, theirs = finished(golden, allow_inexact=bool(changed)), whole.read_status()

    assert mine.state == RunState.COMPLETED
    for count in ("env_steps", "gradient_steps", "epoch"):
        assert getattr(mine, count) == getattr(theirs, count)
    if changed or not have_same_probe(then, now):  # the same algorithm, not the same bits
        assert not mine.exact
    else:
        assert_same_result(golden, whole, without=LATER_METRICS)

    written = [info for info in infos(golden) if info.step > newest.step]
    assert {(info.version, info.rlstudio) for info in written} == {(2, rlstudio.__version__)}
    for info in infos(golden):
        Checkpoints(golden.path, golden.id, None).load(info.step)


def test_the_first_checkpoint_of_version_2_follows_the_last_of_version_1(old):
    newest, *_ = infos(old)
    with Session.open(old, read_config(old), terms=ResumeTerms(allow_inexact=True)) as session:
        for tick in session:
            if tick.env_steps > newest.step:
                break
    assert (infos(old)[0].version, infos(old)[0].parent) == (2, newest.sha256)
    assert infos(old)[1] == newest


def test_on_another_machine_it_goes_on_when_that_is_accepted(golden, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    with pytest.raises(Incompatible, match=r"instructions .* -> another"):
        finished(golden, allow_inexact=False)
    status = finished(golden, allow_inexact=True)
    assert (status.state, status.epoch, status.env_steps) == (RunState.COMPLETED, 8, 8 * 64)
    assert not status.exact
    assert infos(golden)[0].version == 2


@pytest.mark.parametrize("recorded", [None, "0-0123456789abcdef"], ids=["none", "of another probe"])
def test_a_fingerprint_that_cannot_be_compared_makes_the_run_inexact(recorded, tmp_path):
    """Everything else agrees: the run goes on, marked for what nobody can know."""
    run = left_half_way(read_config(copied(2, "ppo", tmp_path)), tmp_path / "runs")
    record_again(run, recorded)
    status = finished(run, allow_inexact=False)
    assert (status.state, status.exact) == (RunState.COMPLETED, False)
    assert (
        status.exact_reason == "resumed from a checkpoint without a fingerprint of the numerics that could be compared"
    )
    assert infos(run)[0].fields["topology"]["numerics"] == machine.fingerprint("cpu")
    assert not infos(run)[0].fields["exact"]


def test_another_fingerprint_is_refused_unless_accepted(tmp_path):
    run = left_half_way(read_config(copied(2, "ppo", tmp_path)), tmp_path / "runs")
    other = f"{PROBE}-0123456789abcdef"
    record_again(run, other)
    with pytest.raises(Incompatible, match=rf"not be exact \(numerics {other} -> {machine.fingerprint('cpu')}\)"):
        finished(run, allow_inexact=False)
    assert f"numerics {other}" in finished(run, allow_inexact=True).exact_reason


def left_half_way(cfg, runs_dir):
    with start(cfg, runs_dir) as session:
        for tick in session:
            if tick.report is not None and tick.report.epoch == 5:
                break
    return session.folder


def record_again(run, fingerprint):
    """The newest checkpoint, as if it had been written with this fingerprint, or with none."""
    lease = FileLease(run.path)
    checkpoints = Checkpoints(run.path, run.id, lease)
    loaded = checkpoints.load(infos(run)[0].step)
    fields = {name: value for name, value in loaded.info.fields.items() if name not in OWN}
    fields["topology"] = {**fields["topology"], "numerics": fingerprint}
    if fingerprint is None:
        del fields["topology"]["numerics"]
    checkpoints.discard_after(loaded.info.step - 1)
    checkpoints.save(loaded.content, step=loaded.info.step, manifest=fields)
    lease.release()
