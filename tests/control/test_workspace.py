"""Workspace: runs found by what people call them, unlisted folders adopted, and nothing left behind by looking."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rlstudio.control.lifecycle import Desired
from rlstudio.control.queue.scheduler import Scheduler
from rlstudio.control.runs.adopt import adopt_path, known_run
from rlstudio.control.runs.folders import folder_of
from rlstudio.control.runs.remove import Policy, prunable, refuse_referred, remove
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import Slots
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Conflict, RunBusy, RunNotFound, StorageError, UserError
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from support.control_world import HERE, S, owner, request

YAML = "name: old\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "runs")
    yield workspace
    if "store" in vars(workspace):
        workspace.store.database.close()


def stranger(runs_dir: Path, state: RunState = S.COMPLETED, name: str = "old") -> RunFolder:
    """A run that only its folder knows; an owned one is that of this living process."""
    folder = RunFolder.create(
        runs_dir, NewRun(name=name, algo="dqn", env_id="CartPole-v1", config_yaml=YAML), state=state
    )
    folder.close()
    return folder


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def ended(workspace: Workspace, state: RunState = S.COMPLETED, **changes: object) -> RunRow:
    run = workspace.store.create(request(**changes), owner=this_process())
    folder_of(workspace, run)
    workspace.store.move(run.id, run.token, S.RUNNING)
    if state == S.CANCELLED:
        workspace.store.ask(run.id, Desired.CANCEL)
        state = S.INTERRUPTED
    return workspace.store.move(run.id, run.token, state)


# -- looking ----------------------------------------------------------------------------------------------------------


def test_looking_at_an_empty_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").touch()
    before = everything(tmp_path)
    for runs_dir in (tmp_path / "runs", tmp_path / "there"):
        workspace = Workspace(runs_dir)
        assert workspace.is_empty
        assert workspace.entries() == []
        assert workspace.count() == 0
        for ref in ("last", "x", ""):
            with pytest.raises(RunNotFound, match=r"there are no runs in .* yet"):
                workspace.find(ref)
        with pytest.raises(RunNotFound):
            known_run(workspace, "last")
    assert everything(tmp_path) == before


def test_found_by_id_beginning_name_and_last(workspace: Workspace) -> None:
    first, second = ended(workspace, name="alpha"), ended(workspace, name="beta")
    third = ended(workspace, name="alpha")
    ids = {run.id: run.name for run in (first, second, third)}
    for run_id in ids:
        assert workspace.find(run_id).id == run_id
        assert workspace.find(run_id[:-1]).id == run_id
    with pytest.raises(RunNotFound, match=r"'alpha': 2 runs have this name \(.*\); name one of them"):
        workspace.find("alpha")  # never silently the newest of them
    assert workspace.find("beta").id == second.id
    assert workspace.find("last").id == third.id
    assert [entry.id for entry in workspace.entries()] == [third.id, second.id, first.id]
    assert [entry.id for entry in workspace.entries(limit=2)] == [third.id, second.id]
    assert [entry.id for entry in workspace.entries(states={S.QUEUED})] == []
    assert workspace.count() == 3


def test_ambiguous_and_unknown(workspace: Workspace) -> None:
    first, second = ended(workspace, name="alpha"), ended(workspace, name="beta")
    with pytest.raises(RunNotFound, match=r"'2': 2 ids begin with it \(.*\); give more of the id") as caught:
        workspace.find("2")
    assert first.id in str(caught.value)
    assert second.id in str(caught.value)
    with pytest.raises(RunNotFound, match="did you mean alpha"):
        workspace.find("alpa")
    with pytest.raises(RunNotFound, match="did you mean last"):
        workspace.find("lats")
    with pytest.raises(RunNotFound, match="rlctl ls"):
        workspace.find("")
    paths = ("..", ".", "/", "../secret", "a/../../b", "%2e%2e", "..%2f", "\0", "~", "C:\\", "．．")
    for strange in ("%", "_", "*", "../runs", "'; drop table run", "\\", "a\nb", "x" * 10_000, *paths):
        with pytest.raises(RunNotFound) as caught:
            workspace.find(strange)
        assert "\n" not in str(caught.value)


def test_many_that_begin_so_are_not_all_named(workspace: Workspace) -> None:
    for _ in range(7):
        workspace.store.create(request())
    with pytest.raises(RunNotFound, match=r"7 ids begin with it \(.*, \.\.\.\)"):
        workspace.find("2")


def test_a_name_is_looked_for_before_the_beginning_of_an_id(workspace: Workspace) -> None:
    run = ended(workspace)
    named = ended(workspace, name=run.id[:10])
    assert workspace.find(run.id[:10]).id == named.id
    assert workspace.find(run.id).id == run.id


def test_what_the_folder_says_is_fresher_while_it_runs(workspace: Workspace) -> None:
    run = workspace.store.create(request(total_epochs=9), owner=this_process())
    folder = folder_of(workspace, run)
    workspace.store.move(run.id, run.token, S.RUNNING)
    status = folder.read_status()
    folder.write_status(type(status)(**{**vars(status), "env_steps": 640, "epoch": 3, "total_epochs": 5}))
    seen = workspace.find(run.id).status
    assert (seen.env_steps, seen.epoch, seen.state) == (640, 3, S.RUNNING)
    assert seen.total_epochs == 9  # how long it is to go on is for the store to say
    workspace.store.move(run.id, run.token, S.INTERRUPTED, Reason.USER, facts={"env_steps": 700})
    assert workspace.find(run.id).status.env_steps == 700


def test_a_dead_owner_is_told_by_looking_and_recorded_by_reaping(workspace: Workspace) -> None:
    run = workspace.store.create(request(), owner=owner(1, HERE))
    for entry in (workspace.find(run.id), *workspace.entries(), *workspace.entries(states={S.STARTING})):
        assert (entry.status.state, entry.status.reason, entry.recorded) == (S.INTERRUPTED, Reason.ORPHANED, False)
    assert workspace.store.get(run.id) == run
    status = workspace.find(run.id).status
    (reaped,) = workspace.reap()
    assert (reaped.id, reaped.state, reaped.reason, reaped.message) == (
        run.id,
        status.state,
        status.reason,
        status.message,
    )
    assert workspace.find(run.id).recorded
    assert workspace.entries(states={S.STARTING}) == []
    assert workspace.reap() == []


def test_nothing_is_reaped_where_nothing_is(workspace: Workspace) -> None:
    assert workspace.reap() == []
    assert not workspace.runs_dir.exists()


def test_a_folder_with_a_strange_name(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "what? 100%")
    run = ended(workspace)
    assert Workspace(tmp_path / "what? 100%").find("last").id == run.id
    assert everything(tmp_path) & {"what", "what? 100%/.rlstudio/store.db"} == {"what? 100%/.rlstudio/store.db"}
    workspace.store.database.close()


def test_a_store_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLSTUDIO_HOME", str(tmp_path / "state"))
    workspace = Workspace(tmp_path / "runs")
    run = workspace.store.create(request())
    assert (tmp_path / "state" / "store.db").is_file()
    assert not (tmp_path / "runs").exists()
    assert Workspace(tmp_path / "runs").find("last").id == run.id
    workspace.store.database.close()
    monkeypatch.setenv("RLSTUDIO_DB", f"sqlite:///{tmp_path}/other.db")
    assert not Workspace(tmp_path / "runs").is_empty  # what was named is looked at
    other = Workspace(tmp_path / "runs")
    queued = other.store.create(request())
    assert [entry.id for entry in other.entries()] == [queued.id]
    other.store.database.close()


# -- unlisted ---------------------------------------------------------------------------------------------------------


def test_unlisted_runs_are_shown_and_found(workspace: Workspace) -> None:
    old = stranger(workspace.runs_dir)
    run = ended(workspace)
    assert [entry.id for entry in workspace.entries()] == sorted([old.id, run.id], reverse=True)
    assert workspace.count() == 2
    for ref in (old.id, old.id[:-1], "old"):
        entry = workspace.find(ref)
        assert (entry.id, entry.run) == (old.id, None)
    assert workspace.store.ids() == {run.id}  # looking takes nobody in


def test_a_stranger_is_taken_in_when_something_is_done_with_it(workspace: Workspace) -> None:
    old = stranger(workspace.runs_dir, S.INTERRUPTED)
    run = known_run(workspace, "old")
    assert (run.id, run.state, run.name, run.algo) == (old.id, S.INTERRUPTED, "old", "dqn")
    assert workspace.store.config_yaml(old.id) == YAML
    assert workspace.unlisted() == []
    assert known_run(workspace, old.id) == run


def test_a_living_stranger_is_not_taken_in(workspace: Workspace) -> None:
    old = stranger(workspace.runs_dir, S.RUNNING)
    assert workspace.find("old").status.state == S.RUNNING
    with pytest.raises(RunBusy, match="without the store"):
        known_run(workspace, "old")
    with pytest.raises(RunBusy):
        adopt_path(workspace, old.path)
    assert workspace.store.count() == 0


def test_nobody_tries_again_what_was_only_taken_in(workspace: Workspace) -> None:
    """It crashed long ago and elsewhere; a worker that happens to be there does not train it."""
    old = stranger(workspace.runs_dir, S.RUNNING)
    status = old.read_status()
    old.write_status(type(status)(**{**vars(status), "pid": 5_000_000}))
    assert old.read_status().reason == Reason.ORPHANED
    run = known_run(workspace, "old")
    assert (run.state, run.reason, run.is_managed) == (S.INTERRUPTED, Reason.ORPHANED, False)

    class Never:
        def launch(self, *_: object) -> None:
            raise AssertionError

    now = [0.0]
    scheduler = Scheduler(workspace.store, Slots(1, 0, 1000), Never(), clock=lambda: now[0])  # type: ignore[arg-type]
    for _ in range(3):
        observed = scheduler.tick()
        assert (observed.retried, observed.started, observed.waits) == ([], [], False)
        now[0] += 100


# -- adopt ------------------------------------------------------------------------------------------------------------


def test_a_run_from_elsewhere_is_copied_whole(workspace: Workspace, tmp_path: Path) -> None:
    old = stranger(tmp_path / "usb")
    (old.artifacts_path / "film.mp4").write_bytes(b"x" * 100_000)
    run = adopt_path(workspace, old.path)
    copied = workspace.folder(run.id)
    assert everything(copied.path) == everything(old.path)
    assert (copied.artifacts_path / "film.mp4").read_bytes() == b"x" * 100_000
    assert (run.state, run.id) == (S.COMPLETED, old.id)
    assert copied.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ("name: old\nresources: {cpus: 4, gpus: 2, memory_mb: 500, priority: 7, retries: 0}\n", (4, 2, 500, 7, 0)),
        ("name: old\nruntime: {device: cuda}\n", (1, 1, 0, 0, 3)),
        ("name: old\nresources: null\n", (1, 0, 0, 0, 3)),
        ("name: old\nresources: {cpus: many}\n", (1, 0, 0, 0, 0)),
        ("name: old\nresources: 7\n", (1, 0, 0, 0, 0)),
        ("[", (1, 0, 0, 0, 0)),
    ],
)
def test_it_asks_for_what_its_config_says(workspace: Workspace, config: str, asked: tuple[int, ...]) -> None:
    old = stranger(workspace.runs_dir)
    old.config_path.write_text(config)
    run = adopt_path(workspace, old.path)
    assert (run.cpus, run.gpus, run.memory_mb, run.priority, run.max_retries) == asked


def test_one_in_its_place_stays_where_it_is(workspace: Workspace) -> None:
    old = stranger(workspace.runs_dir)
    assert adopt_path(workspace, old.path).id == old.id
    with pytest.raises(Conflict, match="in the store already"):
        adopt_path(workspace, old.path)


@pytest.mark.parametrize("where", ["", "checkpoints/", "artifacts/"])
@pytest.mark.parametrize("kind", ["link", "pipe", "dangling"])
@pytest.mark.parametrize("place", ["usb", "runs"])
def test_what_is_neither_file_nor_folder_is_refused(
    workspace: Workspace, tmp_path: Path, kind: str, where: str, place: str
) -> None:
    old = stranger(tmp_path / place)
    secret = tmp_path / "secret"
    secret.write_text("s")
    path = old.path / f"{where}strange"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(secret if kind == "link" else tmp_path / "nothing")
    before = everything(tmp_path)
    with pytest.raises((StorageError, UserError), match="strange"):
        adopt_path(workspace, old.path)
    assert {name for name in everything(tmp_path) - before if ".rlstudio" not in name} <= {"runs"}
    assert workspace.store.count() == 0


def test_an_id_that_is_there_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    old = stranger(tmp_path / "usb")
    known = workspace.store.create(request(), run_id=old.id)
    with pytest.raises(Conflict, match="in the store already"):
        adopt_path(workspace, old.path)
    assert not workspace.folder(old.id).path.exists()
    workspace.store.remove(known.id)
    workspace.folder(old.id).path.mkdir()
    with pytest.raises(UserError, match="is there already"):
        adopt_path(workspace, old.path)
    assert list(workspace.folder(old.id).path.iterdir()) == []


def test_what_is_no_run(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "20261115-nothing").mkdir()
    for path, why in (
        (tmp_path / "20261115-missing", "no such folder"),
        (tmp_path, "not that of a run"),
        (tmp_path / "20261115-nothing", "is not a run"),
    ):
        with pytest.raises(UserError, match=why):
            adopt_path(workspace, path)
    assert everything(tmp_path) <= {"20261115-nothing", *(name for name in everything(tmp_path) if "rlstudio" in name)}


def test_a_full_disk_leaves_nothing_half_copied(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = stranger(tmp_path / "usb")
    assert workspace.store.count() == 0
    workspace.runs_dir.mkdir(exist_ok=True)
    for number in range(1, 8):
        from rlstudio.storage import failpoint

        failpoint.restart()
        monkeypatch.setenv(failpoint.VARIABLE, f"{number}:enospc")
        with pytest.raises(StorageError):
            adopt_path(workspace, old.path)
        monkeypatch.delenv(failpoint.VARIABLE)
        assert [path.name for path in workspace.runs_dir.iterdir()] == [".rlstudio"]
    assert workspace.store.count() == 0
    assert adopt_path(workspace, old.path).id == old.id


# -- remove -----------------------------------------------------------------------------------------------------------


def test_a_parent_stays_as_long_as_its_child(workspace: Workspace) -> None:
    parent = ended(workspace)
    child = ended(workspace, parent_id=parent.id)
    with pytest.raises(Conflict, match=f"{child.id} was forked from it"):
        refuse_referred(workspace, {parent.id})
    refuse_referred(workspace, {parent.id, child.id})
    remove(workspace, workspace.find(child.id))
    refuse_referred(workspace, {parent.id})
    remove(workspace, workspace.find(parent.id))
    assert workspace.store.count() == 0
    assert workspace.entries() == []


def test_a_removal_that_was_cut_off_is_finished_by_another(workspace: Workspace) -> None:
    run = ended(workspace)
    workspace.folder(run.id).remove()  # and then the power went
    entry = workspace.find(run.id)
    assert not entry.has_folder
    remove(workspace, entry)
    assert workspace.store.count() == 0


def test_what_a_policy_gives_up(workspace: Workspace) -> None:
    failed, cancelled = ended(workspace, S.FAILED), ended(workspace, S.CANCELLED)
    done, interrupted = ended(workspace), ended(workspace, S.INTERRUPTED)
    running = workspace.store.create(request(), owner=this_process())
    queued = workspace.store.create(request())
    old = stranger(workspace.runs_dir, S.FAILED)
    assert [run.id for run in prunable(workspace, Policy())] == [failed.id, cancelled.id]
    assert prunable(workspace, Policy(keep_days=1)) == []
    later = datetime.now(UTC) + timedelta(days=2)
    assert [run.id for run in prunable(workspace, Policy(keep_days=1), later)] == [failed.id, cancelled.id]
    every = Policy(states=frozenset(RunState))
    assert [run.id for run in prunable(workspace, every)] == [run.id for run in (failed, cancelled, done, interrupted)]
    assert [run.id for run in prunable(workspace, Policy(keep_newest=5, states=every.states))] == [failed.id]
    assert prunable(workspace, Policy(keep_newest=6, states=every.states)) == []
    assert {running.id, queued.id, old.id} & {run.id for run in prunable(workspace, every)} == set()


def test_a_policy_keeps_the_whole_line_of_what_stays(workspace: Workspace) -> None:
    """A child that stays keeps its parent, which keeps its own."""
    first = ended(workspace, S.FAILED)
    second = ended(workspace, S.FAILED, parent_id=first.id)
    third = ended(workspace, S.COMPLETED, parent_id=second.id)
    lonely = ended(workspace, S.FAILED)
    side = ended(workspace, S.FAILED, parent_id=first.id)
    assert [run.id for run in prunable(workspace, Policy())] == [lonely.id, side.id]
    remove(workspace, workspace.find(third.id))
    assert [run.id for run in prunable(workspace, Policy())] == [first.id, second.id, lonely.id, side.id]


def test_reading_a_run_without_a_folder_says_why(workspace: Workspace) -> None:
    queued = workspace.store.create(request())
    with pytest.raises(UserError, match="is QUEUED and has never run"):
        workspace.folder_to_read(queued.id)
    run = ended(workspace)
    assert workspace.folder_to_read(run.id).path == workspace.folder(run.id).path
    workspace.folder(run.id).remove()
    with pytest.raises(UserError, match="its folder is not in"):
        workspace.folder_to_read(run.id)
