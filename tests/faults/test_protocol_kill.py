"""Kill the process at every single change it makes to the disk (or half-way through a write), then open the run again.

Random kills prove little: a writer that is not atomic survives forty of them. Every point is visited here, by the quick
suite every fifth.
"""

import shutil

import pytest

from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.storage import failpoint
from support.checkpoint_scenario import STEPS, advance, content, leftovers, new_run, newest
from support.kills import EVERY, KILLED
from support.processes import in_child

pytestmark = pytest.mark.real_process


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run with a checkpoint at 100 and another at 200."""
    run_dir = new_run(tmp_path_factory.mktemp("kill") / "runs")
    advance(run_dir, STEPS[:2])
    return run_dir


def count_operations(run_dir) -> int:
    failpoint.restart()
    advance(run_dir, STEPS[2:])
    return failpoint.passed()


@EVERY
@KILLED
def test_every_kill_point(begun, tmp_path, monkeypatch, kinds, every):
    uninterrupted = tmp_path / "reference" / begun.name
    shutil.copytree(begun, uninterrupted)
    points = count_operations(uninterrupted)
    expected = [record[1:] for record in read_metrics(uninterrupted)]
    assert points > 30
    resumed_from = set()
    for point in sorted({*range(1, points + 1, every), points}):
        run_dir = tmp_path / str(point) / begun.name
        shutil.copytree(begun, run_dir)

        def killed(run_dir=run_dir, point=point):
            failpoint.restart()
            monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kinds[point % len(kinds)]}")
            advance(run_dir, STEPS[2:])

        assert in_child(killed) == 9, f"point {point}"
        assert len(leftovers(run_dir)) <= 1, f"point {point}: {leftovers(run_dir)}"
        assert RunFolder(run_dir).read_status().id == run_dir.name
        reached = newest(run_dir)  # old or new, never mixed
        resumed_from.add(reached)

        advance(run_dir, tuple(step for step in STEPS if step > reached))
        assert leftovers(run_dir) == []
        assert newest(run_dir) == 300
        assert [record[1:] for record in read_metrics(run_dir)] == expected
        assert {path.name for path in (run_dir / "segments").iterdir()} == {
            path.name for path in (uninterrupted / "segments").iterdir()
        }
        shutil.rmtree(run_dir.parent)
    print(f"killed at {len(range(1, points + 1, every))} of {points} changes of a run")
    assert resumed_from == {200, 300}


@EVERY
def test_replacing_a_checkpoint_leaves_the_old_or_the_new_and_never_neither(begun, tmp_path, monkeypatch, every):
    """The same step with another state: after a roll-back the run took another way. An older step is never needed."""
    other = content(200) | {"module_state": content(400)["module_state"]}
    known = {state_hash(content(200)), state_hash(other)}
    both = tmp_path / "both" / begun.name
    shutil.copytree(begun, both)
    with FileLease(both) as lease:
        Checkpoints(both, both.name, lease).save(content(100), step=100, manifest={})
    point, status, seen = 1 - every, 9, set()
    while status == 9:
        point += every
        run_dir = tmp_path / str(point) / begun.name
        shutil.copytree(both, run_dir)

        def killed(run_dir=run_dir, point=point):
            with FileLease(run_dir) as lease:
                checkpoints = Checkpoints(run_dir, run_dir.name, lease)
                checkpoints.load(100)
                failpoint.restart()
                monkeypatch.setenv(failpoint.VARIABLE, f"{point}:kill")
                checkpoints.save(other, step=200, manifest={})

        status = in_child(killed)
        with FileLease(run_dir) as lease:
            found = Checkpoints(run_dir, run_dir.name, lease).newest_good()
        assert leftovers(run_dir) == []
        assert not list((run_dir / "checkpoints").glob(".*"))
        assert found.rejected == []
        assert state_hash(found.loaded.content) in known
        seen.add(state_hash(found.loaded.content))
        shutil.rmtree(run_dir.parent)
    assert status == 0
    assert seen == known


def test_a_new_run_is_whole_or_not_there(tmp_path, monkeypatch):
    from rlstudio.experiment.folder.run_folder import list_runs

    point, status = 0, 9
    while status == 9:
        point += 1
        runs = tmp_path / f"runs-{point}"

        def killed(runs=runs, point=point):
            failpoint.restart()
            monkeypatch.setenv(failpoint.VARIABLE, f"{point}:torn")
            RunFolder.create(runs, NewRun(name="n", algo="dqn", env_id="Chain", config_yaml="a: 1\n"))

        status = in_child(killed)
        for seen in list_runs(runs):
            run = RunFolder(runs / seen.id)
            assert run.read_config() == "a: 1\n"
            assert (run.path / "checkpoints").is_dir()
            assert [event["kind"] for event in run.events()] == ["created"]
    assert status == 0
    assert len(list_runs(runs)) == 1
    assert point > 15
