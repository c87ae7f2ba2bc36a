"""A child forked from a checkpoint goes on exactly as its parent did, and depends on nothing of it."""

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from rlstudio.core.errors import CheckpointError, NoValidCheckpoint, UserError
from rlstudio.data.replay import buffer as replay_module
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.checkpoint.manifest import VERSION, Origin, manifest_bytes
from rlstudio.experiment.config.experiment import new_run
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.metrics.records import metric_files
from rlstudio.experiment.run.fork import copy_checkpoint
from rlstudio.experiment.run.load import load_run, read_config
from rlstudio.storage.folder import Folder
from support.repetition import few
from support.sessions import resume
from support.tiny_runs import assert_same_result, config, run_to_the_end

GOLDEN = Path(__file__).parent.parent / "golden" / "run-v1"


@pytest.fixture(autouse=True, scope="module")
def short_segments():
    """A small replay lies in segments too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_module, "SEGMENT_ROWS", 64)
        yield


@pytest.fixture(scope="module")
def parents(tmp_path_factory):
    """Runs that ended, with every checkpoint of theirs."""
    return {algo: ended(algo, tmp_path_factory.mktemp(algo)) for algo in ("ppo", "dqn")}


def ended(algo, runs_dir):
    ckpt = {"every_seconds": None, "every_epochs": 1, "keep_last": 100}
    return run_to_the_end(config(algo, "native", ckpt=ckpt, tracking={"sinks": ["csv"]}), runs_dir)


def infos(run):
    """Newest first."""
    return Checkpoints(run.path, run.id, None).list()


def new_child(parent, runs_dir):
    return RunFolder.create(runs_dir, replace(new_run(read_config(parent)), name="child"))


def fork(parent, checkpoint, runs_dir):
    child = new_child(parent, runs_dir)
    with FileLease(child.path) as lease:
        copy_checkpoint(parent, checkpoint, child, lease)
    return child


def finished(child):
    with resume(child) as session:
        for _ in session:
            pass
    return child


def is_empty(run) -> bool:
    return not list((run.path / "checkpoints").iterdir()) and not metric_files(Folder(run.path))


ENDS = list(product(["ppo", "dqn"], ["best", str(2 * 128), str(7 * 128)]))
QUICK_ENDS = {("ppo", "best"), ("ppo", str(7 * 128)), ("dqn", str(2 * 128))}


@pytest.mark.parametrize(("algo", "checkpoint"), few(ENDS, QUICK_ENDS.__contains__))
def test_a_child_ends_like_its_parent(parents, algo, checkpoint, tmp_path):
    parent, runs_dir = parents[algo], tmp_path / "elsewhere"
    away = tmp_path / parent.id
    shutil.copytree(parent.path, away)
    child = fork(RunFolder(away), checkpoint, runs_dir)
    shutil.rmtree(away)
    assert_same_result(finished(child), parent)
    assert "metrics_missing" not in [event["kind"] for event in child.events()]


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_the_copy_says_what_it_is_a_copy_of(parents, algo, tmp_path):
    parent = parents[algo]
    source = next(info for info in infos(parent) if info.step == 7 * 128)
    child = fork(parent, "896", tmp_path)
    copy, *kept = infos(child)
    assert (copy.run_id, copy.step, copy.version, copy.state_hash) == (child.id, 896, VERSION, source.state_hash)
    assert copy.origin == Origin(parent.id, 896, source.sha256, source.state_hash)
    assert copy.meta == {**source.meta, "run_id": child.id, "metrics": {"jsonl": source.meta["metrics"]["jsonl"]}}
    assert copy.fields["topology"] == source.fields["topology"]
    assert copy.segments == source.segments
    assert bool(copy.segments) == (algo == "dqn")
    assert kept[-1].parent is None
    assert {info.step for info in kept} >= {5 * 128}  # where a run that diverges goes back to

    steps = [record.step for record in read_metrics(child.path)]
    assert steps == [record.step for record in read_metrics(parent.path) if record.step <= 896]

    assert {info.origin.run_id for info in infos(finished(child))} == {parent.id}  # also in those of its own


def test_the_last_of_a_fork_can_be_forked_again(parents, tmp_path):
    child = fork(parents["ppo"], "640", tmp_path)
    grandchild = fork(child, "last", tmp_path)
    assert infos(grandchild)[0].origin.run_id == child.id
    assert load_run(grandchild).env_steps == 640
    assert_same_result(finished(grandchild), parents["ppo"])


def test_a_child_that_diverges_goes_back_like_its_parent(tmp_path, monkeypatch):
    """The way back lies before the fork."""
    judge = Guardrails.judge

    def judged(self, report, trainer):
        first = "attempt" not in trainer.source.collector._noise.rng.path
        return "a made-up reason" if report.epoch == 8 and first else judge(self, report, trainer)

    plain = ended("ppo", tmp_path / "plain")
    monkeypatch.setattr(Guardrails, "judge", judged)
    parent = ended("ppo", tmp_path / "parent")
    child = finished(fork(plain, str(7 * 128), tmp_path / "child"))
    assert [event["to_env_steps"] for event in child.events() if event["kind"] == "rolled_back"] == [5 * 128]
    assert_same_result(child, parent)
    assert child.read_status().state_hash != plain.read_status().state_hash


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_of_version_1_can_be_forked(algo, tmp_path):
    (path,) = GOLDEN.glob(f"*-{algo}-*")
    child = fork(RunFolder(path), "last", tmp_path)
    copy, source = infos(child)[0], infos(RunFolder(path))[0]
    assert (source.version, copy.version) == (1, 2)
    assert copy.state_hash == source.state_hash == copy.origin.state_hash


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(parents, tmp_path):
    """A parent of our own, with a function that damages one file of it."""
    run = RunFolder(tmp_path / parents["dqn"].id)
    shutil.copytree(parents["dqn"].path, run.path)

    def damage(name: str) -> None:
        data = bytearray((run.path / name).read_bytes())
        data[len(data) // 2] ^= 1
        (run.path / name).write_bytes(data)

    return run, damage


@pytest.mark.parametrize("what", ["tensors.safetensors", "state.json", "MANIFEST.json", "segment", "the way back"])
def test_a_damaged_source_is_refused_by_name(damaged, what, tmp_path):
    parent, damage = damaged
    source = next(info for info in infos(parent) if info.step == 7 * 128)
    names = {
        "segment": source.segments[-1].file,
        "the way back": "checkpoints/step-000000000640/state.json",
    }
    name = names.get(what, f"checkpoints/step-000000000896/{what}")
    damage(name)
    child = new_child(parent, tmp_path / "children")
    begin = "its replay is damaged \\(" if what == "segment" else ""
    with (
        FileLease(child.path) as lease,
        pytest.raises(CheckpointError, match=f"fork of run {parent.id}: {begin}{name}"),
    ):
        copy_checkpoint(parent, "896", child, lease)
    assert is_empty(child)


@pytest.mark.parametrize("metrics", [None, {}, {"jsonl": -5}])
def test_a_source_whose_manifest_lies_is_refused_by_name(damaged, metrics, tmp_path):
    """With right hashes: one from elsewhere."""
    parent, _ = damaged
    path = parent.path / "checkpoints/step-000000000896/MANIFEST.json"
    fields = {name: value for name, value in json.loads(path.read_bytes()).items() if name != "sha256"}
    path.write_bytes(manifest_bytes({**fields, "meta": {**fields["meta"], "metrics": metrics}}))
    child = new_child(parent, tmp_path / "children")
    with FileLease(child.path) as lease, pytest.raises(CheckpointError, match=f"fork of run {parent.id}: .*manifest"):
        copy_checkpoint(parent, "896", child, lease)
    assert is_empty(child)


def test_last_is_the_newest_that_verifies(damaged, tmp_path):
    parent, damage = damaged
    steps = [info.step for info in infos(parent)]
    damage(f"checkpoints/step-{steps[0]:012d}/state.json")
    assert infos(fork(parent, "last", tmp_path / "children"))[0].step == steps[1]
    for step in steps[1:]:
        damage(f"checkpoints/step-{step:012d}/state.json")
    with pytest.raises(NoValidCheckpoint, match=f"{parent.id}: no checkpoint verifies"):
        fork(parent, "last", tmp_path / "children")


def test_a_run_with_a_state_of_its_own_is_never_forked_into(parents, tmp_path):
    child = fork(parents["ppo"], "256", tmp_path)
    before = infos(child)
    with FileLease(child.path) as lease, pytest.raises(UserError, match="fork into a new run"):
        copy_checkpoint(parents["ppo"], "last", child, lease)
    assert infos(child) == before


def test_what_is_not_there_is_refused(parents, tmp_path):
    with pytest.raises(UserError, match=r"no checkpoint '7'; it has: last, best"):
        fork(parents["ppo"], "7", tmp_path)
    with pytest.raises(NoValidCheckpoint, match="it has no checkpoint yet"):
        fork(new_child(parents["ppo"], tmp_path / "empty"), "last", tmp_path)


def test_a_parent_in_training_may_prune_what_is_being_copied(damaged, tmp_path, monkeypatch):
    parent, _ = damaged
    newest, *_ = infos(parent)
    save = Checkpoints.save

    def save_late(self, *args, **kwargs):
        if (parent.path / newest.segments[0].file).exists():  # it went back, and its newest are gone
            shutil.rmtree(parent.path / f"checkpoints/step-{newest.step:012d}")
            (parent.path / newest.segments[0].file).unlink()
        return save(self, *args, **kwargs)

    gone = {info.step for info in infos(parent) if newest.segments[0] in info.segments} - {newest.step}
    for step in gone:
        shutil.rmtree(parent.path / f"checkpoints/step-{step:012d}")
    left = max(info.step for info in infos(parent) if info.step != newest.step)
    monkeypatch.setattr(Checkpoints, "save", save_late)
    child = fork(parent, "last", tmp_path / "children")
    assert infos(child)[0].step == left
