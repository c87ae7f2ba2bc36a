"""Groups on the command line: names of several runs, handles, paths, filters, tags and notes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlstudio.cli.arguments import completion
from rlstudio.control.queue.run_group import RunGroup
from rlstudio.control.queue.scheduler import Scheduler
from rlstudio.control.store.resources import Slots
from rlstudio.control.workspace import Workspace
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.run.session import Session
from support.cli_scenario import Rlctl
from support.control_world import S, in_state
from support.launcher import InProcessLauncher


@pytest.fixture
def workspace(place: Path) -> Iterator[Workspace]:
    workspace = Workspace(place / "runs")
    yield workspace
    workspace.store.database.close()


def group(workspace: Workspace, name: str, *states: RunState, **more: object) -> list[str]:
    return [in_state(workspace.store, state, name=name, seed=seed, **more).id for seed, state in enumerate(states)]


def states(workspace: Workspace, ids: list[str]) -> list[str]:
    return [workspace.records.get(run_id).state for run_id in ids]


# -- ls and show ------------------------------------------------------------------------------------------------------


def test_newcomer_s4_the_list_fits_80_columns_and_has_seed_algorithm_and_live_return(
    rlctl: Rlctl, workspace: Workspace
) -> None:
    """Newcomer S4: `ls` was 97 columns wide, without seed, algorithm and the return during training."""
    env = "AVeryLongPackage/AnEnvironmentWithALongName-v12"
    ids = group(
        workspace, f"qrdqn_{env.replace('/', '-')}", *[S.QUEUED] * 10, algo="qrdqn", env_id=env, total_epochs=10**6
    )
    ids += group(workspace, "short", *[S.QUEUED] * 9, S.RUNNING)
    run = workspace.records.get(ids[-1])
    facts = {"env_steps": 10**8, "epoch": 7, "train_return": -12345.678, "eval_return": 1.5e-7}
    workspace.store.beat(run.id, run.token, 1, facts)
    lines = rlctl("ls").out.splitlines()
    assert len(lines) == 21
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["run", "name", "algo", "seed", "state", "age", "epoch", "train", "eval"]
    newest = lines[1].split()
    assert (newest[:5], newest[6:]) == (
        [ids[-1][-4:], "short", "ppo", "9", "RUNNING"],
        ["7/0", "-12,345.7", "1.50e-07"],
    )
    assert lines[20].split()[:4] == [ids[0][-4:], lines[20].split()[1], "qrdqn", "0"]
    assert lines[20].split()[1].startswith("qrdqn_A")
    assert "…" in lines[20].split()[1]
    documents = rlctl("ls", "--json").document
    assert [document["handle"] for document in documents] == [run_id[-4:] for run_id in reversed(ids)]
    assert documents[0]["train_return"] == -12345.678


def test_filters_of_the_list(rlctl: Rlctl, workspace: Workspace) -> None:
    failed, done = group(workspace, "one", S.FAILED), group(workspace, "two", S.COMPLETED, S.COMPLETED, algo="dqn")
    for given, wanted in {
        "--state failed": failed,
        "--algo dqn": done,
        "two": done,
        "two one --env CartPole-v1": failed + done,
    }.items():
        assert sorted(run["id"] for run in rlctl("ls", *given.split(), "--json").document) == sorted(wanted)
    nothing = rlctl("ls", "--state", "queued")
    assert (nothing.code, nothing.err) == (0, "")
    assert nothing.out == "--state queued: none of the 3 runs; there are: 2 completed, 1 failed\n"
    assert rlctl("ls", "--state", "queued", "--json").document == []
    assert "did you mean failed" in rlctl("ls", "--state", "faild").err
    assert rlctl("ls", "nobody").code == 2
    limited = rlctl("ls", "two", "-n", 1).out.splitlines()
    assert limited[-1].startswith("1 older ones")


@pytest.mark.parametrize("word", ["ID", "HANDLE", "runs/ID", "runs/ID/", "./runs/ID", "last", "mine"])
def test_newcomer_s4_a_run_is_named_by_handle_and_by_the_path_that_launch_prints(
    word: str, rlctl: Rlctl, workspace: Workspace
) -> None:
    """Newcomer S4: `rlctl eval runs/<id>`, the path that launch prints, was refused."""
    (run_id,) = group(workspace, "mine", S.COMPLETED)
    reference = word.replace("ID", run_id).replace("HANDLE", run_id[-4:])
    assert rlctl("show", reference, "--json").document["id"] == run_id


def test_a_group_is_shown_as_a_table_with_its_mean(rlctl: Rlctl, workspace: Workspace) -> None:
    ids = group(workspace, "many", S.RUNNING, S.RUNNING)
    for run_id, mean in zip(ids, (10.0, 20.0), strict=True):
        run = workspace.records.get(run_id)
        workspace.store.move(run_id, run.token, S.COMPLETED, facts={"eval_return": mean, "eval_interval": (mean, mean)})
    shown = rlctl("show", "many").out.splitlines()
    assert [line.split()[0] for line in shown[1:3]] == [run_id[-4:] for run_id in ids], "seed by seed"
    assert shown[3].startswith("many: IQM 15.00, 95 % interval [10.00, 20.00] over 2 seeds")
    assert [run["id"] for run in rlctl("show", "many", "--json").document] == ids
    refused = rlctl("show", "many", "--lineage")
    assert (refused.code, "--lineage: 2 runs are selected" in refused.err) == (2, True)


@pytest.mark.parametrize("command", ["logs many", "fork many", "pause many", "play many -o x.mp4", "export many -o x"])
def test_newcomer_s2_a_name_given_twice_is_ambiguous_where_one_run_is_needed(
    command: str, rlctl: Rlctl, workspace: Workspace
) -> None:
    """Newcomer S2: two runs of one name were allowed, and the name silently meant the newest."""
    ids = group(workspace, "many", S.COMPLETED, S.COMPLETED)
    refused = rlctl(*command.split())
    assert refused.code == 2
    listed = ", ".join(run_id[-4:] for run_id in ids)
    assert refused.err == f"rlctl: run 'many': 2 runs have this name ({listed}); name one of them\n"


def test_without_a_run_and_without_a_filter_nothing_is_done(rlctl: Rlctl, workspace: Workspace) -> None:
    ids = group(workspace, "one", S.COMPLETED)
    for command in ("show", "stop", "cancel", "rm --yes", "tag x"):
        refused = rlctl(*command.split())
        assert (refused.code, "no run is named; give RUN" in refused.err) == (2, True)
    assert states(workspace, ids) == ["COMPLETED"]


# -- acting on groups -------------------------------------------------------------------------------------------------


def test_a_group_is_stopped_cancelled_and_removed_as_one(rlctl: Rlctl, workspace: Workspace) -> None:
    ids = group(workspace, "many", S.QUEUED, S.COMPLETED, S.QUEUED)
    other = group(workspace, "other", S.QUEUED)
    stopped = rlctl("stop", "many")
    assert (stopped.code, stopped.err) == (0, "")
    assert [line.split(":")[0] for line in stopped.out.splitlines()] == [f"run {ids[0]}", f"run {ids[2]}"]
    assert states(workspace, ids) == ["INTERRUPTED", "COMPLETED", "INTERRUPTED"]
    assert all(workspace.records.get(run_id).is_paused for run_id in (ids[0], ids[2]))
    again = rlctl("stop", "many")
    assert (again.code, "there is nothing to stop" in again.err) == (2, True)
    assert rlctl("cancel", "many").out.count("CANCELLED") == 2
    assert rlctl("cancel", "many").code == 2
    refused = rlctl("rm", "many", "nobody", "--yes")
    assert (refused.code, workspace.store.count()) == (2, 4)
    assert rlctl("rm", "--state", "cancelled", "--yes").out.count("removed") == 2
    assert rlctl("rm", "many", "--yes").out == f"run {ids[1]}: removed\n"
    assert states(workspace, other) == ["QUEUED"]


# -- training groups --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_core")
def test_newcomer_s4_an_interrupted_group_is_resumed_as_one(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newcomer S4: after Ctrl-C in seed 1 of 3, seeds 2 and 3 were never started and nothing could resume the group."""

    close_epoch = Session._close_epoch

    def ctrl_c(session: Session, *report: Any) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return close_epoch(session, *report)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "_close_epoch", ctrl_c)
        stopped = rlctl("launch", "-f", "tiny.yaml", "--seeds", 3, "--name", "many", "train.epochs=1", "--json", "-q")
    assert stopped.code == 130
    assert stopped.err.splitlines()[-1] == (
        "rlctl: held back 2 more of the 3 runs; go on with all that is left: rlctl resume many"
    )
    ids = [run["id"] for run in stopped.document["runs"]]
    assert [run["state"] for run in stopped.document["runs"]] == ["INTERRUPTED"] * 3
    done = rlctl("resume", "many", "--json", "-q")
    assert (done.code, done.err) == (0, "")
    assert [(run["id"], run["seed"], run["state"]) for run in done.document["runs"]] == [
        (run_id, seed, "COMPLETED") for run_id, seed in zip(ids, (3, 4, 5), strict=True)
    ]
    assert all(run["evaluation"]["n"] for run in done.document["runs"])
    refused = rlctl("resume", "many")
    assert (refused.code, "none of the 3 runs is interrupted (3 completed)" in refused.err) == (2, True)
    longer = rlctl("resume", "many", "train.epochs=2", "--detach", "-q")
    assert longer.out.split() == ids
    refused = rlctl("resume", "many", "--allow-inexact")
    assert "--allow-inexact with several runs" in refused.err


def test_newcomer_s4_seeds_are_trained_side_by_side_where_cores_are_free(
    rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newcomer S4: seeds ran one by one though a second core was free."""
    workspace, asked = Workspace(place / "runs"), []

    def serve(_: Workspace) -> None:
        """A worker that has room for one run."""
        asked.append(Scheduler(workspace.store, Slots(1), InProcessLauncher(workspace)).tick().started)

    monkeypatch.setattr("rlstudio.control.queue.service.ensure_worker", serve)
    monkeypatch.setattr("rlstudio.control.queue.run_group.of_this_machine", lambda: Slots(2))
    runs = rlctl("launch", "-f", "tiny.yaml", "--seeds", 2, "train.epochs=1", "--json", "-q").document["runs"]
    assert [run["state"] for run in runs] == ["COMPLETED"] * 2
    assert [run.id for (run,) in asked] == [runs[0]["id"]], "the worker took the first, this process the second"
    assert [workspace.store.get(run["id"]).is_managed for run in runs] == [True, False]
    assert [run["evaluation"]["mean"] for run in runs] == [run["eval_return"] for run in runs]
    assert {frozenset(run["evaluation"]) for run in runs} == {frozenset(runs[1]["evaluation"])}
    monkeypatch.setattr("rlstudio.control.queue.run_group.of_this_machine", lambda: Slots(1))
    assert rlctl("launch", "-f", "tiny.yaml", "--seeds", 2, "train.epochs=1", "-q").code == 0
    assert len(asked) == 1, "one core: no worker is asked"
    workspace.store.database.close()


def test_seeds_that_others_train_are_waited_for(rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, claimed = Workspace(place / "runs"), []

    def claims_all(_: Workspace) -> None:
        for run in workspace.store.runs(states={S.QUEUED}):
            claimed.append(workspace.store.claim(run.id, this_process()))

    def ends_one(group: RunGroup) -> None:
        run = claimed.pop()
        workspace.store.move(run.id, run.token, S.RUNNING)
        end = (S.COMPLETED, Reason.NONE) if claimed else (S.FAILED, Reason.DIVERGED)
        workspace.store.move(run.id, run.token, *end)

    monkeypatch.setattr("rlstudio.control.queue.service.ensure_worker", claims_all)
    monkeypatch.setattr("rlstudio.control.queue.run_group.of_this_machine", lambda: Slots(9))
    monkeypatch.setattr(RunGroup, "wait", ends_one)
    done = rlctl("launch", "-f", "tiny.yaml", "--seeds", 3)
    assert done.code == 6, "of the one that diverged"
    assert "waiting for 3 more, which a worker trains beside; Ctrl-C holds them back" in done.out

    def is_interrupted(group: RunGroup) -> None:
        ends_one(group)
        ends_one(group)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(RunGroup, "wait", is_interrupted)
    done = rlctl("launch", "-f", "tiny.yaml", "--seeds", 2, "-q")
    assert done.code == 130
    workspace.store.database.close()


@pytest.mark.usefixtures("one_core")
def test_a_group_is_evaluated_and_compared(rlctl: Rlctl) -> None:
    assert rlctl("launch", "-f", "tiny.yaml", "--seeds", 2, "--name", "one", "train.epochs=1", "-q").code == 0
    documents = rlctl("eval", "one", "--episodes", 1, "--json").document
    assert [document["seed"] for document in documents] == [3, 4]
    assert rlctl("eval", "one", "--episodes", 1).out.splitlines()[-1].endswith("over 2 seeds")
    within = rlctl("diff", "one", "--json")
    assert (within.code, within.document["left"]) == (1, documents[0]["id"])
    assert "only run" in rlctl("diff", documents[0]["id"]).err
    assert "is no run, so no filter fits" in rlctl("eval", "model:3", "--algo", "ppo").err


# -- tags and notes ---------------------------------------------------------------------------------------------------


def test_tags_and_notes(rlctl: Rlctl, workspace: Workspace) -> None:
    ids, other = group(workspace, "many", S.COMPLETED, S.RUNNING), group(workspace, "other", S.FAILED)
    assert rlctl("tag", "paper", "many").out == "".join(f"run {run_id}: tags paper\n" for run_id in ids)
    assert rlctl("tag", "table-1", "--tag", "paper").out.count("tags paper, table-1") == 2
    assert [run["id"] for run in rlctl("ls", "--tag", "paper", "--json").document] == ids[::-1]
    assert rlctl("tag", "paper", ids[0], "--remove").out == f"run {ids[0]}: tags table-1\n"
    assert (
        rlctl("ls", "--tag", "papr").out
        == "--tag papr: none of the 3 runs; did you mean paper?; there are: 2 table-1, 1 paper\n"
    )
    for bad in ("", "two words", "-x", "a" * 65, "a\nb"):
        assert rlctl("tag", "--", bad, "many").code == 2
    assert rlctl("note", other[0]).out == f"run {other[0]}: no note\n"
    assert rlctl("note", "other", "lost its bits").out == f"run {other[0]}: lost its bits\n"
    shown = rlctl("show", "other").out
    assert "note          lost its bits" in shown
    assert rlctl("show", ids[1], "--json").document["tags"] == ["paper", "table-1"]
    assert rlctl("note", "other", "").out == f"run {other[0]}: no note\n"
    assert "10,001 characters" in rlctl("note", "other", "x" * 10_001).err


def test_what_tab_offers(workspace: Workspace) -> None:
    ids = group(workspace, "many", S.COMPLETED, S.FAILED)
    workspace.store.annotate(ids[0], tags=["paper"])

    class Context:
        params: dict[str, object] = {}

    offers = dict(completion.runs(Context(), ""))  # type: ignore[arg-type]
    assert list(offers) == ["last", "many", ids[1][-4:], ids[0][-4:]]
    assert (offers["many"], offers[ids[0][-4:]]) == ("2 runs", "many: completed, ppo on CartPole-v1, seed 0")
    assert [name for name, _ in completion.runs(Context(), ids[0][:9])] == ids[::-1]  # type: ignore[arg-type]
    assert completion.tags(Context(), "p") == [("paper", "")]  # type: ignore[arg-type]
    assert completion.run_envs(Context(), "") == [("CartPole-v1", "")]  # type: ignore[arg-type]
    assert completion.states("can") == [("cancelled", "")]
