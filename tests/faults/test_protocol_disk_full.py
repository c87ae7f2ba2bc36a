"""The disk refuses (full, or an I/O error) at every single change: the run says so, and nothing old is harmed."""

import contextlib
import shutil

import pytest

from rlstudio.core.errors import StorageError
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.storage import failpoint
from rlstudio.storage.writers import is_full
from support.checkpoint_scenario import STEPS, advance, content, new_run, newest
from support.kills import EVERY


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    run_dir = new_run(tmp_path_factory.mktemp("full") / "runs")
    advance(run_dir, STEPS[:2])
    return run_dir


@EVERY
@pytest.mark.parametrize("kind", ["eio", "enospc"])
def test_every_refusal(begun, tmp_path, monkeypatch, kind, every):
    uninterrupted = tmp_path / "reference" / begun.name
    shutil.copytree(begun, uninterrupted)
    failpoint.restart()
    advance(uninterrupted, STEPS[2:])
    points = failpoint.passed()
    for point in sorted({*range(1, points + 1, every), points}):
        run_dir = tmp_path / str(point) / begun.name
        shutil.copytree(begun, run_dir)
        failpoint.restart()
        monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kind}")
        with pytest.raises(StorageError) as caught:
            advance(run_dir, STEPS[2:])
        monkeypatch.delenv(failpoint.VARIABLE)
        assert str(run_dir) in str(caught.value)
        assert is_full(caught.value) is (kind == "enospc")

        assert RunFolder(run_dir).read_status().id == run_dir.name
        reached = newest(run_dir)
        assert reached in (200, 300)

        advance(run_dir, tuple(step for step in STEPS if step > reached))  # space was freed
        assert newest(run_dir) == 300
        assert [r[1:] for r in read_metrics(run_dir)] == [r[1:] for r in read_metrics(uninterrupted)]
        shutil.rmtree(run_dir.parent)
    print(f"{kind} at {len(range(1, points + 1, every))} of {points} changes of a run")


def test_a_failed_save_gives_its_space_back(begun, tmp_path, monkeypatch):
    """A full disk must not stay full because of the half-written checkpoint."""
    run_dir = tmp_path / begun.name
    shutil.copytree(begun, run_dir)
    with FileLease(run_dir) as lease:
        checkpoints = Checkpoints(run_dir, run_dir.name, lease)
        checkpoints.newest_good()
        before = sorted(path.relative_to(run_dir) for path in (run_dir / "checkpoints").rglob("*"))
        for point in range(4, 10):
            failpoint.restart()
            monkeypatch.setenv(failpoint.VARIABLE, f"{point}:enospc")
            with pytest.raises(StorageError):
                checkpoints.save(content(300), step=300, manifest={})
            monkeypatch.delenv(failpoint.VARIABLE)
            assert sorted(path.relative_to(run_dir) for path in (run_dir / "checkpoints").rglob("*")) == before
        checkpoints.save(content(300), step=300, manifest={})
        assert checkpoints.load(300).info.state_hash == state_hash(content(300))


@pytest.mark.parametrize("kind", ["eio", "enospc"])
def test_a_refused_replacement_leaves_the_old_or_the_new(begun, tmp_path, monkeypatch, kind):
    """The same step with another state, after a roll-back; without the disk's consent the old one goes back."""
    other = content(200) | {"module_state": content(400)["module_state"]}
    seen, point, done = set(), 0, False
    while not done:
        point += 1
        run_dir = tmp_path / str(point) / begun.name
        shutil.copytree(begun, run_dir)
        with FileLease(run_dir) as lease:
            checkpoints = Checkpoints(run_dir, run_dir.name, lease)
            failpoint.restart()
            monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kind}")
            with contextlib.suppress(StorageError):
                checkpoints.save(other, step=200, manifest={})
                done = True
            monkeypatch.delenv(failpoint.VARIABLE)
            found = checkpoints.newest_good()
            assert found.rejected == []
            seen.add(state_hash(found.loaded.content))
    assert seen == {state_hash(content(200)), state_hash(other)}
