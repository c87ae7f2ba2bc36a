"""A segment of the replay is damaged or lost: the weights are not, and what needs only them goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from rlstudio.core.errors import CheckpointError
from rlstudio.data.replay import buffer
from rlstudio.delivery.export import export_run
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.run.load import load_run
from support.sessions import start
from support.tiny_runs import config

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
def test_what_acts_needs_no_segment(run: RunFolder, how: str, checkpoint: str, tmp_path: Path) -> None:
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
