"""Fork in the store: a child with its parent's state, its own settings and a place among its relatives; or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlstudio.control.queue.scheduler import Scheduler
from rlstudio.control.registry import releases
from rlstudio.control.registry.releases import Releases
from rlstudio.control.runs import fork as forking
from rlstudio.control.runs.fork import fork, fork_later
from rlstudio.control.runs.looking.relatives import relatives_of
from rlstudio.control.runs.remove import remove
from rlstudio.control.runs.start import start_session
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import Slots
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Incompatible, StorageError, UserError
from rlstudio.core.run_state import Reason
from rlstudio.experiment.config.experiment import ExperimentConfig
from support.control_world import S, assert_history, request
from support.experiments import tiny
from support.launcher import InProcessLauncher


def config(epochs: int = 3) -> ExperimentConfig:
    train = {"epochs": epochs, "steps_per_epoch": 32, "rollout_steps": 8, "batch_size": 16, "lr_schedule": "constant"}
    return tiny(name="parent", train=train, ckpt={"every_seconds": None, "every_epochs": 1, "keep_last": 5})


def train(session: Any) -> str:
    with session:
        for _ in session:
            pass
    return str(session.folder.id)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """With one finished run in it, called `parent`."""
    workspace = Workspace(tmp_path_factory.mktemp("fork") / "runs")
    train(start_session(workspace, config()))
    yield workspace
    workspace.store.database.close()


@pytest.fixture
def parent(workspace: Workspace) -> RunRow:
    return workspace.store.runs(name="parent")[-1]  # the first one: tests train others of the name


def everything(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if "store.db" not in name}


def test_a_child_begins_where_its_parent_stands(workspace: Workspace, parent: RunRow) -> None:
    before = everything(workspace.folder(parent.id).path)
    session = fork(workspace, parent, "64", ["train.epochs=4", "train.lr=0.001", "name=child"])
    assert session.status.env_steps == 64
    child = workspace.store.get(train(session))
    assert (child.state, child.epoch, child.name) == (S.COMPLETED, 4, "child")
    assert (child.parent_id, child.parent_step) == (parent.id, 64)
    assert child.state_hash != parent.state_hash
    assert everything(workspace.folder(parent.id).path) == before
    assert_history(workspace.store, child.id)
    relatives = relatives_of(workspace.store, child)
    assert [(depth, run.id) for depth, run in relatives] == [(0, parent.id), (1, child.id)]
    grandchild = workspace.store.get(train(fork(workspace, child, "last", ["train.epochs=5"])))
    assert [depth for depth, _ in relatives_of(workspace.store, grandchild)] == [0, 1, 2]
    workspace.store.remove(grandchild.id)
    workspace.folder(grandchild.id).remove()
    workspace.store.remove(child.id)
    workspace.folder(child.id).remove()


def test_a_child_registers_its_policy_where_its_experiment_says_so(
    workspace: Workspace, parent: RunRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "_formats", lambda: ("bundle",))  # graphs have their own tests
    child = train(fork(workspace, parent, "last", ["train.epochs=4", "register.model=forked", "name=registered"]))
    (version,) = Releases(workspace).registry.versions("forked")
    assert (version.model, version.run_id) == ("forked", child)


def test_newcomer_s2_a_name_goes_on_to_mean_the_parent_after_a_fork(workspace: Workspace, parent: RunRow) -> None:
    """Newcomer S2: `fork` kept its parent's name, so that `diff NAME last` compared the child with itself."""
    made = []
    for of_fork, more in ((False, ()), (False, ()), (True, ()), (False, ("name=mine",))):
        forked = workspace.store.get(made[0]) if of_fork else parent
        session = fork(workspace, forked, "last", ["train.epochs=9", *more])
        session.close()
        made.append(session.folder.id)
    names = [workspace.store.get(run_id).name for run_id in made]
    assert names == ["parent-fork", "parent-fork2", "parent-fork3", "mine"]
    assert [workspace.folder(run_id).read_status().name for run_id in made] == names
    assert forking.free_name(workspace, "x" * 64) == "x" * 59 + "-fork"
    for run_id in reversed(made):
        remove(workspace, workspace.find(run_id))


def test_a_child_in_the_queue_is_trained_by_a_scheduler(workspace: Workspace, parent: RunRow) -> None:
    """Equal settings lead to the state that the parent would have had."""
    queued = fork_later(workspace, parent, "last", ["train.epochs=5"])
    assert (queued.state, queued.is_managed, queued.parent_step) == (S.QUEUED, True, parent.env_steps)
    assert queued.total_epochs == 5
    scheduler = Scheduler(workspace.store, Slots(1, 0, 1000), InProcessLauncher(workspace))
    assert [run.id for run in scheduler.tick().started] == [queued.id]
    child = workspace.store.get(queued.id)
    assert (child.state, child.epoch) == (S.COMPLETED, 5)
    longer = workspace.store.get(train(start_session(workspace, config(epochs=5))))
    assert child.state_hash == longer.state_hash
    assert_history(workspace.store, child.id)


@pytest.mark.parametrize(
    ("checkpoint", "overrides", "kind"),
    [
        ("last", ["policy.network.hidden_sizes=[16]", "train.epochs=9"], Incompatible),
        ("last", ["env.id=Acrobot-v1", "train.epochs=9"], Incompatible),
        ("last", [], UserError),  # nothing is left to train
        ("last", ["train.nonsense=1"], UserError),
        ("777", ["train.epochs=9"], UserError),
        ("best", ["train.epochs=9"], UserError),
    ],
)
@pytest.mark.parametrize("how", [fork, fork_later])
def test_what_does_not_fit_leaves_nothing_behind(
    workspace: Workspace, parent: RunRow, how: Any, checkpoint: str, overrides: list[str], kind: type[Exception]
) -> None:
    before, known = everything(workspace.runs_dir), workspace.store.ids()
    with pytest.raises(kind) as caught:
        how(workspace, parent, checkpoint, overrides)
    assert "\n" not in str(caught.value)
    assert workspace.store.ids() == known
    assert everything(workspace.runs_dir) == before


@pytest.mark.parametrize("step", ["folder_of", "StoreLease", "copy_checkpoint"])
def test_a_disk_that_refuses_leaves_nobody_starting(
    workspace: Workspace, parent: RunRow, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    known = workspace.store.ids()
    original = getattr(forking, step)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if step == "folder_of" and args[1].id == parent.id:
            return original(*args, **kwargs)
        raise StorageError("no space left on device")

    monkeypatch.setattr(forking, step, refuse)
    with pytest.raises(StorageError):
        fork(workspace, parent, "last", ["train.epochs=9"])
    for run_id in workspace.store.ids() - known:
        run = workspace.store.get(run_id)
        assert (run.state, run.reason) == (S.INTERRUPTED, Reason.STORAGE)
        workspace.store.remove(run_id)
    monkeypatch.undo()
    for folder in workspace.unlisted():
        folder.folder.remove()


def test_a_run_that_has_never_run_has_nothing_to_fork(workspace: Workspace) -> None:
    queued = workspace.store.create(request(config_yaml="{}"))
    with pytest.raises(UserError):
        fork(workspace, queued)
    assert workspace.store.count() == len(workspace.store.ids())
    workspace.store.remove(queued.id)


def test_a_child_in_other_environments_is_refused_with_what_was_changed(workspace: Workspace, parent: RunRow) -> None:
    """Here the same world, stepped otherwise: a position inside an episode does not go over."""
    reason = r"fork with train\.epochs=6 env\.vectorization=sync: a position of .*; such a change needs a new run"
    with pytest.raises(Incompatible, match=reason):
        fork(workspace, parent, overrides=["train.epochs=6", "env.vectorization=sync"])
