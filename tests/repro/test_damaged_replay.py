"""A segment of the replay is damaged or lost: the weights are not, and what needs only them goes on."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlstudio.core.errors import CheckpointError, NoValidCheckpoint
from rlstudio.core.run_state import Reason, RunState
from rlstudio.data.replay import buffer
from rlstudio.data.replay.source import ReplaySource
from rlstudio.delivery.export import export_run
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.analysis.replay_rows import ReplayRows
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.config.experiment import new_run
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.run.fork import copy_checkpoint
from rlstudio.experiment.run.load import load_run, read_config
from rlstudio.experiment.run.session import Session
from support.sessions import resume, start
from support.tiny_runs import TRAIN, config

S = RunState
OBSERVATIONS = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
SEGMENT_ROWS = 64


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A DQN that was interrupted with a full replay of several segments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer, "SEGMENT_ROWS", SEGMENT_ROWS)
        with start(config("dqn", "native"), tmp_path_factory.mktemp("runs")) as session:
            for tick in session:
                if tick.report and tick.epoch == 7:
                    break
    return session.folder


@pytest.fixture
def run(parent: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A copy of our own, to damage."""
    monkeypatch.setattr(buffer, "SEGMENT_ROWS", SEGMENT_ROWS)
    shutil.copytree(parent.path, tmp_path / parent.id)
    return RunFolder(tmp_path / parent.id)


def segments(run: RunFolder) -> list[Path]:
    return sorted((run.path / "segments").iterdir())


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def damage(run: RunFolder, how: str) -> None:
    for path in segments(run):
        flip(path) if how == "flipped" else path.unlink()


@pytest.mark.parametrize("how", ["flipped", "missing"])
@pytest.mark.parametrize("checkpoint", ["last", "best", "768"])
def test_row_13_what_acts_needs_no_segment(run: RunFolder, how: str, checkpoint: str, tmp_path: Path) -> None:
    before = load_run(run, checkpoint)
    assert len(before.checkpoint.info.segments) > 1
    damage(run, how)
    after = load_run(run, checkpoint)
    assert after.env_steps == before.env_steps
    assert np.array_equal(after.agent.act(OBSERVATIONS), before.agent.act(OBSERVATIONS))
    results = [evaluate(loaded.agent, loaded.cfg.env, episodes=2, seed=1) for loaded in (before, after)]
    assert results[0] == results[1]
    assert len(recorded_episodes(after.agent, after.cfg.env, episodes=1, seed=0)) == 1
    bundle = export_run(run, tmp_path / "bundle", checkpoint=checkpoint, formats=("bundle",))
    assert np.array_equal(bundle.agent().act(OBSERVATIONS), before.agent.act(OBSERVATIONS))


def test_the_files_of_the_weights_are_verified_all_the_same(run: RunFolder) -> None:
    newest, *older = Checkpoints(run.path, run.id, None).list()
    flip(run.path / f"checkpoints/step-{newest.step:012d}/tensors.safetensors")
    assert load_run(run).env_steps == older[0].step
    with pytest.raises(CheckpointError, match=r"tensors\.safetensors: its sha256 is not the one in the manifest"):
        load_run(run, str(newest.step))


def test_a_segment_is_verified_when_it_is_read(run: RunFolder) -> None:
    damage(run, "flipped")
    content = load_run(run).checkpoint.content
    segment, *_ = content["trainer_state"]["source"]["replay"]["segments"]
    with pytest.raises(CheckpointError, match=r"segments/.*: its sha256 is not the one in the manifest"):
        segment.columns()


# -- going on ---------------------------------------------------------------------------------------------------------


def train(session: Session) -> None:
    with session:
        for _ in session:
            pass


def test_row_13_a_resume_names_the_segment_and_the_way_on(run: RunFolder) -> None:
    damage(run, "flipped")
    with pytest.raises(NoValidCheckpoint) as caught:
        resume(run)
    message = str(caught.value)
    assert re.fullmatch(
        rf"run {run.id}: its replay is damaged \(segments/[0-9a-f]{{64}}\.safetensors: its sha256 is not the one in the"
        rf" manifest\), its weights at 896 steps are not; go on with an emptied replay, which is not exact:"
        rf" rlctl resume {run.id} --empty-replay",
        message,
    )
    status = run.read_status()
    assert (status.state, status.reason, status.message) == (S.FAILED, Reason.NO_VALID_CHECKPOINT, message)


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_row_13_it_goes_on_with_an_emptied_replay_and_says_so(run: RunFolder, how: str) -> None:
    newest = Checkpoints(run.path, run.id, None).list()[0]
    weights = load_run(run).checkpoint.content["module_state"]["model"]
    damage(run, how)
    with resume(run, empty_replay=True) as session:
        source = session.trainer.source
        assert isinstance(source, ReplaySource)
        assert (session.status.env_steps, len(source.replay)) == (newest.step, 0)
        assert not session.status.exact
        assert session.status.exact_reason.startswith("resumed with an emptied replay: segments/")
        for name, tensor in session.trainer.agent.model.state_dict().items():
            assert np.array_equal(tensor.numpy(), weights[name])
        next(iter(session))
        assert len(source.replay) == source.warmup  # nothing is drawn from a few rows
        assert source.collector.env_steps == newest.step + source.warmup
    assert ReplayRows.of(run).row(0).version is None  # rows are counted anew, updates are not
    train(resume(run))  # whole again
    status = run.read_status()
    assert (status.state, status.epoch, status.exact) == (S.COMPLETED, 12, False)
    (event,) = [event for event in run.events() if event["kind"] == "replay_emptied"]
    assert event["env_steps"] == newest.step
    assert event["reason"].startswith("segments/")


@pytest.mark.parametrize("algo", ["qrdqn", "sac", "mbmpc", "diffusion"])
def test_every_kind_of_replay_can_be_emptied(algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "SEGMENT_ROWS", SEGMENT_ROWS)
    with start(config(algo, "native", train=TRAIN[algo] | {"epochs": 6}), tmp_path) as session:
        for tick in session:
            if tick.report and tick.epoch == 5:
                break
    damage(session.folder, "flipped")
    train(resume(session.folder, empty_replay=True))
    status = session.folder.read_status()
    assert (status.state, status.epoch, status.exact) == (S.COMPLETED, 6, False)


def test_row_13_a_fork_names_the_segment_or_begins_with_an_emptied_replay(run: RunFolder, tmp_path: Path) -> None:
    newest = Checkpoints(run.path, run.id, None).list()[0]
    weights = load_run(run).agent.act(OBSERVATIONS)
    damage(run, "flipped")
    child = RunFolder.create(tmp_path / "children", new_run(read_config(run)))
    with FileLease(child.path) as lease:
        with pytest.raises(
            NoValidCheckpoint, match=rf"^fork of run {run.id}: its replay is damaged \(segments/.*: its"
        ) as no:
            copy_checkpoint(run, "last", child, lease)
        assert str(no.value).endswith(f"which is not exact: rlctl fork {run.id} --empty-replay")
        copy_checkpoint(run, "last", child, lease, empty_replay=True)
    assert np.array_equal(load_run(child).agent.act(OBSERVATIONS), weights)
    train(resume(child))
    status = child.read_status()
    assert (status.state, status.epoch, status.exact) == (S.COMPLETED, 12, False)
    assert status.exact_reason.startswith("forked with an emptied replay: segments/")
    (event,) = [event for event in child.events() if event["kind"] == "replay_emptied"]
    assert event["env_steps"] == newest.step


def test_a_run_that_is_killed_at_once_is_whole(run: RunFolder) -> None:
    """The state it goes on from is saved before it trains, and it is where a run that diverges goes back to."""
    damage(run, "flipped")
    with resume(run, empty_replay=True) as session:
        step = session.status.env_steps
        assert session.milestones.good_step == step
    assert not run.read_status().exact
    with resume(run) as session:
        assert session.status.env_steps == step
        assert len(session.trainer.source.replay) == 0  # type: ignore[union-attr]
        assert session.writer.checkpoints.load(step).info.fields["exact"] is False


def test_without_damage_the_option_changes_nothing(run: RunFolder, parent: RunFolder, tmp_path: Path) -> None:
    other = RunFolder(tmp_path / "other" / parent.id)
    shutil.copytree(parent.path, other.path)
    train(resume(run, empty_replay=True))
    train(resume(other))
    assert run.read_status().exact
    assert run.read_status().state_hash == other.read_status().state_hash


def test_an_older_checkpoint_that_is_whole_is_taken_unless_the_newest_weights_are_asked_for(run: RunFolder) -> None:
    newest, older, *_ = Checkpoints(run.path, run.id, None).list()
    (only, *_) = {ref.file for ref in newest.segments} - {ref.file for ref in older.segments}
    flip(run.path / only)
    with resume(run) as session:
        assert (session.status.env_steps, session.status.exact) == (older.step, True)
    with resume(run, empty_replay=True) as session:
        assert (session.status.env_steps, session.status.exact) == (newest.step, False)
