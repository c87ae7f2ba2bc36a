"""Power loss: what was not synced may be there, be lost, or be there in part, and names may survive without their data.

The changes of one session are recorded, and after every one of them the disk is rebuilt as a power cut may leave it:
file data {kept, lost, half} beyond the last sync of the file, directory entries {kept, lost} beyond the last sync of
the directory (of all directories, or of a single one).
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder, run_ids
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.storage import failpoint
from rlstudio.storage.failpoint import Operation
from support.checkpoint_scenario import STEPS, advance, leftovers, new_run, newest
from support.power_loss import lay_out, states
from support.repetition import some_points


class Recording(NamedTuple):
    before: Path  # the run as it was
    operations: list[Operation]  # what the session then did to it
    durable: list[tuple[int, int]]  # after how many changes `save` had returned, for which step
    after: Path


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    root = tmp_path_factory.mktemp("power")
    run_dir = new_run(root / "runs")
    advance(run_dir, STEPS[:1])
    before = root / "before" / run_dir.name
    shutil.copytree(run_dir, before)
    operations: list[Operation] = []
    durable: list[tuple[int, int]] = []

    def note(operation: Operation) -> None:
        path, target = operation.path, operation.target
        target = target and before / target.relative_to(run_dir)
        operations.append(Operation(operation.kind, before / path.relative_to(run_dir), target, bytes(operation.data)))

    def save(self, content, *, step, manifest):
        info = original(self, content, step=step, manifest=manifest)
        durable.append((len(operations), step))
        return info

    original = Checkpoints.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "save", save)
        failpoint.restart(note)
        advance(run_dir, STEPS[1:])
        failpoint.restart()
    return Recording(before, operations, durable, run_dir)


def test_a_new_run_and_each_of_its_states(tmp_path):
    """What `create` and `write_status` returned from is there after a cut."""
    order = [RunState.STARTING, RunState.RUNNING, RunState.COMPLETED]
    runs, before = tmp_path / "runs", tmp_path / "before"
    operations: list[Operation] = []
    told: list[tuple[int, int]] = []

    def note(operation: Operation) -> None:
        path, target = (place and before / place.relative_to(runs) for place in (operation.path, operation.target))
        operations.append(Operation(operation.kind, path, target, bytes(operation.data)))

    runs.mkdir(), before.mkdir()
    failpoint.restart(note)
    run = RunFolder.create(runs, NewRun(name="n", algo="dqn", env_id="Chain", config_yaml="a: 1\n"))
    told.append((len(operations), 0))
    for number, state in enumerate(order[1:], start=1):
        run.write_status(replace(run.last_status(), state=state))
        told.append((len(operations), number))
    failpoint.restart()

    every, reached = states(before, operations), set()
    for tree, changes, what in every:
        place = tmp_path / "cut"
        place.mkdir()
        lay_out(tree, place)
        found = [RunFolder(place / run_id) for run_id in run_ids(place)]
        least = max((number for count, number in told if count <= changes), default=-1)
        seen = max((order.index(one.last_status().state) for one in found), default=-1)
        assert seen >= least, what
        assert [one.read_config() for one in found] in ([], ["a: 1\n"]), what
        reached.add(seen)
        shutil.rmtree(place)
    print(f"{len(every)} states after a power cut")
    assert reached == {-1, 0, 1, 2}


@pytest.mark.parametrize("at_most", [90, pytest.param(300, marks=pytest.mark.slow)])
def test_every_state_a_power_cut_can_leave(recording, tmp_path, at_most):
    every = states(recording.before, recording.operations)
    assert len(every) > 150
    expected = [record[1:] for record in read_metrics(recording.after)]
    resumed_from = set()
    for tree, changes, what in (every[point] for point in some_points(len(every), at_most)):
        run_dir = tmp_path / recording.before.name
        run_dir.mkdir()
        lay_out(tree, run_dir)
        assert RunFolder(run_dir).read_status().id == run_dir.name, what
        reached = newest(run_dir)
        assert reached >= max((step for count, step in recording.durable if count <= changes), default=100), what
        resumed_from.add(reached)

        advance(run_dir, tuple(step for step in STEPS if step > reached))
        assert newest(run_dir) == 300, what
        assert [record[1:] for record in read_metrics(run_dir)] == expected, what
        assert leftovers(run_dir) == [], what
        shutil.rmtree(run_dir)
    print(f"{min(at_most, len(every))} of {len(every)} states of a run after a power cut")
    assert resumed_from == set(STEPS)
