"""A fork is whole or not at all: killed, refused by the disk or cut off from power at every change it makes."""

import contextlib
import shutil
from typing import NamedTuple

import pytest

from rlstudio.core.errors import LeaseLost, StorageError
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.records import Record, metric_files
from rlstudio.experiment.metrics.writer import MetricsWriter
from rlstudio.experiment.run.fork import copy_checkpoint
from rlstudio.storage import failpoint
from rlstudio.storage.failpoint import Operation
from rlstudio.storage.folder import Folder
from support.checkpoint_scenario import content, leftovers, new_run
from support.kills import EVERY, KILLED
from support.power_loss import lay_out, states
from support.processes import in_child
from support.repetition import some_points


class Parent(NamedTuple):
    run: RunFolder
    hashes: dict[int, str]  # of the checkpoint at 300 and of the one it goes back to
    metrics: bytes  # up to 300


def state(step, offset):
    session = {"best": None, "good_step": 200, "final": None}
    base = content(step)
    return base | {
        "trainer_state": {**base["trainer_state"], "session": session},
        "meta": {"run_id": "parent", "metrics": {"jsonl": offset, "csv": 7}},
    }


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """Checkpoints at 100, 200, 300 and 400, with metrics in several files."""
    run = RunFolder(new_run(tmp_path_factory.mktemp("fork") / "runs"))
    hashes, offset = {}, {}
    with FileLease(run.path) as lease:
        checkpoints = Checkpoints(run.path, run.id, lease)
        metrics = MetricsWriter(run.path, lease=lease, rotate_mb=0.0002)
        for step in (100, 200, 300, 400):
            for part in (50, 25, 0):
                metrics.write([Record(1.0, step - part, key, step / 3) for key in ("loss", "return")])
                metrics.flush()
            offset[step] = metrics.offset()
            saved = state(step, offset[step])
            checkpoints.save(saved, step=step, manifest={"env_steps": step, "exact": True})
            hashes[step] = state_hash(saved)
        metrics.close()
    return Parent(run, {step: hashes[step] for step in (200, 300)}, all_metrics(run.path)[: offset[300]])


def all_metrics(run_dir):
    return b"".join((run_dir / name).read_bytes() for name in metric_files(Folder(run_dir)))


def fork(parent, run_dir):
    with FileLease(run_dir) as lease:
        return copy_checkpoint(parent.run, "300", RunFolder(run_dir), lease)


def is_whole(parent, run_dir) -> bool:
    """Everything is there and verifies; False where there is nothing. Anything else is a failure."""
    checkpoints = Checkpoints(run_dir, run_dir.name, None)
    found = checkpoints.newest_good()
    if found is None:
        return False
    assert found.rejected == []
    infos = {info.step: info for info in checkpoints.list()}
    assert {step: state_hash(checkpoints.load(step).content) for step in infos} == parent.hashes
    assert all(info.origin.run_id == parent.run.id and info.origin.step == step for step, info in infos.items())
    assert infos[300].meta["metrics"] == {"jsonl": len(parent.metrics)}
    assert all_metrics(run_dir) == parent.metrics
    return True


@pytest.fixture
def blank(tmp_path):
    return new_run(tmp_path / "children")


def copied(blank, tmp_path, name):
    run_dir = tmp_path / str(name) / blank.name
    shutil.copytree(blank, run_dir)
    return run_dir


@pytest.mark.real_process
@EVERY
@KILLED
def test_every_kill_point(parent, blank, tmp_path, monkeypatch, kinds, every):
    point, status, seen = 1 - every, 9, []
    while status == 9:
        point += every
        run_dir = copied(blank, tmp_path, point)

        def killed(run_dir=run_dir, point=point):
            failpoint.restart()
            monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kinds[point % len(kinds)]}")
            fork(parent, run_dir)

        status = in_child(killed)
        seen.append(is_whole(parent, run_dir))
        if not seen[-1]:
            fork(parent, run_dir)  # again, over what was left
            assert is_whole(parent, run_dir)
        with FileLease(run_dir) as lease:
            Checkpoints(run_dir, run_dir.name, lease)
        assert leftovers(run_dir) == []
        shutil.rmtree(run_dir.parent)
    print(f"killed at {len(seen)} points of a fork")
    assert status == 0
    assert point > 40
    assert seen == sorted(seen)  # nothing, and from one moment on everything
    assert seen[-1]
    assert not seen[0]


@EVERY
@pytest.mark.parametrize("kind", ["eio", "enospc"])
def test_every_refusal(parent, blank, tmp_path, monkeypatch, kind, every):
    point, done = 1 - every, False
    while not done:
        point += every
        run_dir = copied(blank, tmp_path, point)
        with FileLease(run_dir) as lease:
            failpoint.restart()
            monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kind}")
            with contextlib.suppress(StorageError):
                copy_checkpoint(parent.run, "300", RunFolder(run_dir), lease)
                done = failpoint.passed() < point
            monkeypatch.delenv(failpoint.VARIABLE)
            if not is_whole(parent, run_dir):
                copy_checkpoint(parent.run, "300", RunFolder(run_dir), lease)  # space was freed
            assert is_whole(parent, run_dir)
        shutil.rmtree(run_dir.parent)
    assert point > 40


@pytest.mark.parametrize("at_most", [60, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_every_state_a_power_cut_can_leave(parent, blank, tmp_path, at_most):
    run_dir, operations = copied(blank, tmp_path, "done"), []

    def note(operation: Operation) -> None:
        path, target = (place and blank / place.relative_to(run_dir) for place in (operation.path, operation.target))
        operations.append(Operation(operation.kind, path, target, bytes(operation.data)))

    with FileLease(run_dir) as lease:
        shutil.copytree(run_dir, blank, dirs_exist_ok=True)  # with the lease it has when the fork begins
        failpoint.restart(note)
        copy_checkpoint(parent.run, "300", RunFolder(run_dir), lease)
        failpoint.restart()
    durable = max(number for number, operation in enumerate(operations, start=1) if operation.kind == "sync")
    every, seen = states(blank, operations), set()
    assert len(every) > 60
    for tree, changes, what in (every[point] for point in some_points(len(every), at_most)):
        cut = tmp_path / "cut" / blank.name
        cut.mkdir(parents=True)
        lay_out(tree, cut)
        whole = is_whole(parent, cut)
        assert whole or changes < durable, what
        seen.add(whole)
        if not whole:
            fork(parent, cut)
            assert is_whole(parent, cut), what
        shutil.rmtree(cut)
    assert seen == {False, True}


def test_who_lost_the_child_gives_it_nothing(parent, blank, monkeypatch):
    """Another process took the run just before the copies would count."""
    with FileLease(blank) as lease:

        def sync(folder, name=""):
            original(folder, name)
            if folder.root == blank:
                monkeypatch.setattr(lease, "check", lost)

        def lost():
            raise LeaseLost("taken")

        original = Folder.sync
        monkeypatch.setattr(Folder, "sync", sync)
        with pytest.raises(LeaseLost):
            copy_checkpoint(parent.run, "300", RunFolder(blank), lease)
    assert not is_whole(parent, blank)
