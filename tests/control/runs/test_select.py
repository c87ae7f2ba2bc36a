"""Runs by what people call them: ids, beginnings, handles, names, paths, `last`, and filters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstudio.control.references import References
from rlstudio.control.runs.select import Filters, by_name, select
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import RunNotFound, UserError
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from support.control_world import S, in_state, request

A, B, C = (f"2026010{day}-000000000000-ppo-cartpole-v1-{end}" for day, end in ((1, "aaaa"), (2, "bbbb"), (3, "cccc")))


def refs(*named: tuple[str, str], runs_dir: Path = Path("runs")) -> References:
    return References(named, max((run_id for run_id, _ in named), default=None), runs_dir)


def refused(word: str, references: References) -> str:
    with pytest.raises(RunNotFound) as caught:
        references.all_of(word)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- words ------------------------------------------------------------------------------------------------------------


def test_every_way_to_name_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = refs((A, "slow"), (B, "fast"), (C, "slow"))
    for word in (
        B,
        "bbbb",
        "20260102",
        "fast",
        f"runs/{B}",
        f"runs/{B}/",
        f"./runs/../runs/{B}",
        f"{tmp_path}/runs/{B}",
    ):
        assert known.all_of(word) == (B,)
        assert known.one_of(word) == B
    assert known.all_of("slow") == (A, C), "oldest first"
    assert known.one_of("last") == C
    assert [known.handle(run_id) for run_id in (A, B, C)] == ["aaaa", "bbbb", "cccc"]


def test_a_name_of_many_is_refused_where_one_run_is_needed() -> None:
    known = refs(*((f"2026010{n}-cart-{n:04x}", "many") for n in range(1, 8)))
    with pytest.raises(RunNotFound, match=r"'many': 7 runs have this name \(0001, .*0005, \.\.\.\); name one of them"):
        known.one_of("many")


def test_a_handle_means_its_run_and_nothing_else() -> None:
    """Also where ids end alike, which adopted ones may, and where somebody's name looks like a handle."""
    twin = B.replace("bbbb", "aaaa")
    named = References(
        [(A, "one"), (twin, "two"), (C, "aaab"), (C[:-4] + "aaab", "cccc"), ("my-own-run", "x")], C, Path()
    )
    for run_id in (A, twin, C, C[:-4] + "aaab", "my-own-run"):
        assert named.all_of(named.handle(run_id)) == (run_id,)
        assert len(named.handle(run_id)) < len(run_id)
    assert named.handle(A) == "20260101"
    assert "2 ids end with it" in refused("aaaa", named)
    assert named.all_of("aaab") == (C,), "a name that somebody chose goes before a handle"


def test_a_beginning_that_several_ids_have() -> None:
    known = refs((A, "one"), (B, "two"))
    assert refused("2026", known) == f"run '2026': 2 ids begin with it ({A}, {B}); give more of the id"
    exact = refs(("20260101-ab", "one"), ("20260101-ab-2", "two"))
    assert exact.all_of("20260101-ab") == ("20260101-ab",)
    assert exact.handle("20260101-ab") == "20260101-ab"


def test_a_word_that_names_nothing_has_the_nearest() -> None:
    known = refs((A, "baseline"))
    assert (
        refused("basline", known) == "run 'basline': not in runs; did you mean baseline?; list the runs with: rlctl ls"
    )
    assert "did you mean aaaa" in refused("aaab", known)
    assert f"did you mean {A}" in refused(f"runs/{A[:-1]}", known)
    for word in ("", "/", "//", ".", "..", "runs/", "runs", "\0", "a/\0", "x" * 5000, "y/" + "x" * 5000):
        refused(word, known)


def test_a_folder_elsewhere_is_said_to_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "archive" / A).mkdir(parents=True)
    (tmp_path / "runs").mkdir()
    (tmp_path / "linked").symlink_to("runs")
    known = refs((B, "here"), runs_dir=tmp_path / "runs")
    message = refused(f"archive/{A}/", known)
    assert f"--runs-dir {tmp_path}/archive, or copy the run here with: rlctl adopt archive/{A}/" in message
    assert known.all_of(f"linked/{B}") == (B,), "the same folder by another path"
    assert "not in" in refused(f"archive/{B}", known), "no such folder there, and its namesake here is not meant"


# -- filters ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "runs")
    yield workspace
    if "store" in vars(workspace):
        workspace.store.database.close()


@pytest.fixture(scope="module")
def two_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Twenty runs: 1 to 10 are `slow` and failed, of dqn; 11 to 20 are `fast`; every fifth has a tag. The tests only
    look at them."""
    workspace = Workspace(tmp_path_factory.mktemp("place") / "runs")
    for number in range(1, 21):
        kind = {"name": "slow", "algo": "dqn"} if number <= 10 else {"name": "fast", "env_id": "Acrobot-v1"}
        run = in_state(workspace.store, S.FAILED if number <= 10 else S.COMPLETED, seed=number, **kind)
        if number % 5 == 0:
            workspace.store.annotate(run.id, tags=["Fifth"])
    yield workspace
    workspace.store.database.close()


def seeds(workspace: Workspace, *words: str, **filters: tuple[str, ...]) -> list[int]:
    return [entry.status.seed for entry in select(workspace, words, Filters(**filters))]


def test_groups_and_filters_choose_runs(two_groups: Workspace) -> None:
    everything = list(range(1, 21))
    assert seeds(two_groups, "slow") == everything[:10]
    assert seeds(two_groups, "fast", "slow", "last") == [*everything[10:], *everything[:10]], "each run once"
    assert seeds(two_groups, states=("failed",)) == seeds(two_groups, algos=("dqn",)) == everything[:10]
    assert seeds(two_groups, states=("FAILED", "completed")) == everything
    assert seeds(two_groups, envs=("acrobot-v1",)) == everything[10:]
    assert seeds(two_groups, tags=("fifth",)) == [5, 10, 15, 20]
    assert seeds(two_groups, "slow", tags=("fifth",), states=("failed",)) == [5, 10]
    assert list(by_name(select(two_groups, ["fast", "slow"]))) == ["fast", "slow"]


@pytest.mark.parametrize(
    ("words", "filters", "says"),
    [
        ((), Filters(), "no run is named; give RUN"),
        ((), Filters(tags=("fith",)), "--tag fith: none of the 20 runs; did you mean Fifth?; there are: 4 Fifth"),
        (("slow",), Filters(algos=("ppo",)), "--algo ppo: none of the 10 runs; there are: 10 dqn"),
        ((), Filters(algos=("dqn",), envs=("Acrobot-v1",)), "--env Acrobot-v1 --algo dqn: none of the 20 runs has all"),
        ((), Filters(states=("running",)), "--state running: none of the 20 runs; there are: 10 failed, 10 completed"),
        (("slow", "nobody"), Filters(), "run 'nobody': not in"),
    ],
)
def test_what_names_no_run_says_why(two_groups: Workspace, words: tuple[str, ...], filters: Filters, says: str) -> None:
    with pytest.raises(UserError) as caught:
        select(two_groups, words, filters)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_state_that_does_not_exist() -> None:
    with pytest.raises(UserError, match=r"state 'faild': unknown; did you mean failed\?; choose from queued, "):
        Filters(states=("faild",))


def test_in_an_empty_place_nothing_is_selected_and_nothing_made(workspace: Workspace) -> None:
    for words, filters in ((["x"], Filters()), ([], Filters(algos=("ppo",)))):
        with pytest.raises(RunNotFound, match=r"there are no runs in .* yet; start one with"):
            select(workspace, words, filters)
    assert not workspace.runs_dir.exists()


def test_folders_that_the_store_does_not_know_are_selected_too(workspace: Workspace) -> None:
    workspace.store.create(request(name="both"))
    new = NewRun(name="both", algo="dqn", env_id="CartPole-v1", config_yaml="")
    folder = RunFolder.create(workspace.runs_dir, new, state=S.COMPLETED)
    folder.close()
    assert len(select(workspace, ["both"])) == 2
    (unlisted,) = select(workspace, [], Filters(algos=("dqn",)))
    assert (unlisted.id, unlisted.run) == (folder.id, None)
    with pytest.raises(RunNotFound, match="--tag x: none of the 2 runs; there are: none"):
        select(workspace, ["both"], Filters(tags=("x",)))


def test_a_store_that_may_only_be_read(two_groups: Workspace) -> None:
    file = two_groups.state_dir / "store.db"
    before, written = file.read_bytes(), file.stat().st_mtime_ns
    os.chmod(file, 0o400)
    os.chmod(two_groups.state_dir, 0o500)
    try:
        looking = Workspace(two_groups.runs_dir)
        assert len(select(looking, ["slow"], Filters(states=("failed",)))) == 10
    finally:
        os.chmod(two_groups.state_dir, 0o700)
        os.chmod(file, 0o600)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, written)
