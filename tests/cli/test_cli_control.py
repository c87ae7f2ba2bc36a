"""`stop`, `cancel`, `queue`, `worker`, `gc`, `adopt`, `fork` and `--detach`, in this process and without a worker."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstudio import orchestrator
from rlstudio.cli.commands.queue import _room_for
from rlstudio.control.runs import start as starting
from rlstudio.control.runs.adopt import known_run
from rlstudio.control.store.resources import Slots
from rlstudio.control.store.store import Store
from rlstudio.control.store.workers import Workers
from rlstudio.control.workspace import Workspace
from rlstudio.core.host import process
from rlstudio.core.host.process import Owner, process_of, this_process
from rlstudio.core.resources import ResourcesConfig
from rlstudio.core.run_state import Reason, RunState
from rlstudio.data.replay import buffer
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from support.cli_scenario import Rlctl, everything
from support.control_world import owner, request
from support.experiments import tiny_yaml
from support.launcher import InProcessLauncher

S = RunState


@pytest.fixture(autouse=True)
def nobody_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started for a run, and nobody waits long."""
    monkeypatch.setattr("rlstudio.cli.commands.queue.STOP_SECONDS", 0.3)
    monkeypatch.setattr("rlstudio.control.queue.worker.TICK_SECONDS", 0.01)
    monkeypatch.setattr("rlstudio.control.queue.launchers.SubprocessLauncher", InProcessLauncher)
    monkeypatch.setenv("RLSTUDIO_OWNER", "tester")


@pytest.fixture
def workspace(place: Path) -> Iterator[Workspace]:
    workspace = Workspace(place / "runs")
    yield workspace
    if "store" in vars(workspace):
        workspace.store.database.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Owner, int]]:
    """Signals that were sent, instead of sending them."""
    signals: list[tuple[Owner, int]] = []

    def note(owner: Owner, signum: int) -> bool:
        signals.append((owner, signum))
        return True

    monkeypatch.setattr(process, "send", note)
    return signals


def queued(rlctl: Rlctl, *args: str) -> str:
    done = rlctl("launch", "-f", "tiny.yaml", "--detach", "--quiet", *args)
    assert (done.code, done.err) == (0, "")
    return done.out.split()[-1]


def events(store: Store, run_id: str) -> list[RunState]:
    return [event.state for event in store.events(run_id)]


@pytest.mark.parametrize("command", ["ls", "queue", "gc", "ls --json", "queue --json", "gc --json"])
@pytest.mark.parametrize("where", ["runs", "."])
def test_looking_at_an_empty_place_creates_nothing(rlctl: Rlctl, place: Path, command: str, where: str) -> None:
    done = rlctl(*command.split(), "--runs-dir", where)
    assert (done.code, done.err) == (0, "")
    assert everything(place) == {"tiny.yaml"}


def test_detach_says_how_to_follow_it(rlctl: Rlctl, workspace: Workspace) -> None:
    done = rlctl("launch", "-f", "tiny.yaml", "--detach")
    (run,) = workspace.store.runs()
    assert done.out == f"run {run.id}: QUEUED; follow it with: rlctl logs -f {run.id}\n"
    assert (run.state, run.owner, run.is_managed) == (S.QUEUED, "tester", True)
    (document,) = rlctl("launch", "-f", "tiny.yaml", "-d", "--json").document
    assert (document["state"], document["owner"], document["attempt"]) == ("QUEUED", "tester", 0)


def test_refused_before_it_is_queued(rlctl: Rlctl, place: Path) -> None:
    done = rlctl("launch", "-f", "tiny.yaml", "--detach", "env.id=NoSuchWorld-v0")
    assert done.code == 2
    assert everything(place) == {"tiny.yaml"}


def test_a_key_makes_one_run_for_each_seed(rlctl: Rlctl, workspace: Workspace) -> None:
    first = rlctl("launch", "-f", "tiny.yaml", "-d", "-q", "--key", "night", "--seeds", "3").out
    assert rlctl("launch", "-f", "tiny.yaml", "-d", "-q", "--key", "night", "--seeds", "3").out == first
    assert workspace.store.count() == len(first.split()) == 3
    refused = rlctl("launch", "-f", "tiny.yaml", "-d", "--key", "night/0", "train.epochs=9")
    assert refused.code == 2
    assert "was used for another experiment" in refused.err


def test_queue_shows_order_and_who_serves_it(rlctl: Rlctl, workspace: Workspace) -> None:
    low = queued(rlctl)
    high = queued(rlctl, "resources.priority=5")
    shown = rlctl("queue")
    assert shown.out.index(high) < shown.out.index(low)
    assert "no worker serves this queue; start one with: rlctl worker" in shown.out
    from rlstudio.control.store.resources import Slots

    Workers(workspace.store.database).register("me", this_process(), Slots(2, 0, 100))
    document = rlctl("queue", "--json").document
    assert [run["id"] for run in document["queued"]] == [high, low]
    assert document["running"] == []
    assert [worker["pid"] for worker in document["workers"]] == [os.getpid()]
    assert "no worker" not in rlctl("queue").out
    assert "worker me: cpu=2" in rlctl("queue").out


def test_a_worker_serves_the_queue_and_leaves(rlctl: Rlctl, workspace: Workspace) -> None:
    aside, first, second = queued(rlctl), queued(rlctl), queued(rlctl, "--seed", "9")
    never = queued(rlctl, "resources.cpus=4096")
    rlctl("cancel", never)
    rlctl("pause", aside)
    done = rlctl("worker", "--until-idle", "--slots", "cpu=1,gpu=0,memory_mb=100")
    assert (done.code, done.err) == (0, "")
    assert f"{first}: started, ppo on CartPole-v1, seed 3; 1 more wait" in done.out
    assert f"{second}: started, ppo on CartPole-v1, seed 9; nothing else waits" in done.out
    assert [workspace.store.get(run_id).state for run_id in (first, second)] == [S.COMPLETED] * 2
    assert workspace.store.get(aside).is_paused  # nobody takes it
    assert Workers(workspace.store.database).alive() == []
    assert rlctl("worker", "--slots", "cores=1").code == 2


def test_a_launch_says_what_this_machine_has_no_room_for(rlctl: Rlctl) -> None:
    done = rlctl("launch", "-f", "tiny.yaml", "--detach", "resources.cpus=4096")
    assert done.code == 0
    wants = r"asks for more than this machine has \(4096 cpus of \d+\); it waits for a worker on a larger machine$"
    assert re.search(wants, done.out.strip())
    assert "asks for" not in rlctl("launch", "-f", "tiny.yaml", "--detach").out


def test_a_worker_says_what_it_can_never_start(
    rlctl: Rlctl, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = queued(rlctl, "resources.cpus=3")
    small = queued(rlctl)
    original = InProcessLauncher.launch

    def and_then_enough(self: InProcessLauncher, *args: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return original(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(InProcessLauncher, "launch", and_then_enough)
    done = rlctl("worker", "--slots", "cpu=2")
    assert done.code == 0
    assert f"{never}: needs more than this worker has (3 cpus of 2)" in done.out
    assert done.out.count(never) == 1
    assert workspace.store.get(never).state == S.QUEUED
    assert workspace.store.get(small).state != S.QUEUED


def test_a_run_of_a_cluster_is_too_large_for_its_nodes_not_for_the_worker(workspace: Workspace) -> None:
    """The worker of a cluster was said to have too few cores where it has fewer than the nodes."""
    run, given = workspace.store.create(request(cpus=3)), Slots(2, 0, 1000)
    assert _room_for(run, ResourcesConfig(backend="ray"), given) == "any node of its cluster has"
    assert _room_for(run, ResourcesConfig(), given) == "this worker has (3 cpus of 2)"


# -- stop and cancel --------------------------------------------------------------------------------------------------


def test_s4_several_are_stopped_or_cancelled_by_one_command(rlctl: Rlctl, workspace: Workspace) -> None:
    ids = [queued(rlctl) for _ in range(3)]
    refused = rlctl("stop", *ids)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    done = rlctl("cancel", ids[0], ids[1], ids[0])
    assert done.code == 0
    assert [line.split(":")[0] for line in done.out.splitlines()] == [f"run {ids[0]}", f"run {ids[1]}"]
    assert [workspace.find(run_id).status.state for run_id in ids] == ["CANCELLED", "CANCELLED", "QUEUED"]
    assert rlctl("cancel", "nobody", ids[2]).code == 2
    assert workspace.find(ids[2]).status.state == "QUEUED", "a name that is not known changes nothing"


def test_cancel_a_queued_one(rlctl: Rlctl, workspace: Workspace, sent: list[object]) -> None:
    run_id = queued(rlctl)
    refused = rlctl("stop", run_id)
    assert refused.code == 2
    assert f"rlctl cancel {run_id}" in refused.err
    done = rlctl("cancel", run_id)
    assert (done.code, done.out) == (0, f"run {run_id}: CANCELLED at 0 steps\n")
    assert events(workspace.store, run_id) == [S.QUEUED, S.CANCELLED]
    assert rlctl("cancel", run_id).code == 2
    assert "has never run" in rlctl("logs", "-f", run_id).err
    assert rlctl("resume", run_id).code == 2
    assert sent == []


def test_a_paused_run_keeps_its_place_until_it_is_resumed(
    rlctl: Rlctl, workspace: Workspace, sent: list[object]
) -> None:
    first, second = queued(rlctl), queued(rlctl)
    done = rlctl("pause", first)
    assert (done.code, done.err) == (0, "")
    assert done.out == (f"run {first}: paused at 0 steps; back to its place in the queue with: rlctl resume {first}\n")
    assert rlctl("pause", first).out == done.out  # again: the same
    document = rlctl("pause", first, "--json").document
    assert (document["state"], document["reason"], document["paused"]) == ("INTERRUPTED", "paused", True)
    lists = rlctl("queue", "--json").document
    assert [[run["id"] for run in lists[name]] for name in ("queued", "paused")] == [[second], [first]]
    shown = rlctl("queue").out
    assert shown.index(second) < shown.index(first)
    assert "INTERRUPTED: paused" in shown
    assert "INTERRUPTED: paused" in rlctl("ls").out
    assert rlctl("gc", "--days", 0, "--states", "interrupted", "--json").document == {"would_remove": []}
    back = rlctl("resume", first)
    assert (back.code, back.out) == (0, f"run {first}: QUEUED; follow it with: rlctl logs -f {first}\n")
    assert [run["id"] for run in rlctl("queue", "--json").document["queued"]] == [first, second]
    assert events(workspace.store, first) == [S.QUEUED, S.INTERRUPTED, S.QUEUED]
    assert sent == []


def test_a_paused_run_that_came_to_its_rung_waits_for_its_sweep_again(rlctl: Rlctl, workspace: Workspace) -> None:
    run = workspace.store.create(request(sweep="mine", trial=0, pause_at=3))
    run = workspace.store.claim(run.id, owner())
    workspace.store.move(run.id, run.token, S.RUNNING)
    workspace.store.pause(run.id)
    workspace.store.move(run.id, run.token, S.INTERRUPTED, Reason.PAUSED, "", {"epoch": 3})
    assert rlctl("resume", run.id).out == f"run {run.id}: INTERRUPTED; its sweep mine lets it go on\n"
    assert not workspace.store.get(run.id).is_paused


def test_what_cannot_be_paused_says_why(rlctl: Rlctl, workspace: Workspace, sent: list[object]) -> None:
    run = workspace.store.create(request(), owner=this_process())
    foreground = rlctl("pause", run.id)
    assert (foreground.code, foreground.err.count("\n")) == (2, 1)
    assert f"has no place in the queue to keep; end it with: rlctl stop {run.id}" in foreground.err
    workspace.store.move(run.id, run.token, S.RUNNING)
    workspace.store.move(run.id, run.token, S.INTERRUPTED, Reason.USER)
    assert f"nothing to pause; put it into the queue with: rlctl resume {run.id} --detach" in rlctl("pause", run.id).err
    assert "not in runs" in rlctl("pause", "nobody").err
    folder = RunFolder.create(
        workspace.runs_dir, NewRun(name="far", algo="ppo", env_id="CartPole-v1", config_yaml="{}")
    )
    assert "trains without the store" in rlctl("pause", "far").err
    folder.close()
    assert sent == []


def test_a_run_that_is_being_started_is_stopped_without_its_worker(
    rlctl: Rlctl, workspace: Workspace, sent: list[tuple[Owner, int]]
) -> None:
    """Its row still names the scheduler, which has other things to do."""
    run_id = queued(rlctl)
    run = workspace.store.claim(run_id, this_process())
    assert rlctl("stop", run_id).code == 1  # it is not there yet
    assert sent == []
    assert workspace.store.get(run_id).state == S.STOPPING
    parent = process_of(os.getppid())
    workspace.store.hand_over(run_id, run.token, parent)
    assert rlctl("stop", run_id).code == 1
    assert sent == [(parent, signal.SIGTERM)]  # its own process now, and once


def test_an_ended_run_ends_nobody(rlctl: Rlctl, workspace: Workspace, sent: list[object]) -> None:
    """Its process may live on and do other things: a notebook, the next seed."""
    run_id = queued(rlctl)
    run = workspace.store.claim(run_id, this_process())
    workspace.store.hand_over(run_id, run.token, this_process())
    workspace.store.move(run_id, run.token, S.RUNNING)
    workspace.store.move(run_id, run.token, S.INTERRUPTED, Reason.USER)
    done = rlctl("cancel", run_id)
    assert (done.code, sent) == (0, [])
    assert workspace.store.get(run_id).state == S.CANCELLED


def test_stop_between_two_tries(rlctl: Rlctl, workspace: Workspace, sent: list[object]) -> None:
    run_id = queued(rlctl)
    run = workspace.store.claim(run_id, this_process())
    workspace.store.reap(run_id, run.token, run.heartbeat, Reason.ORPHANED, "")
    assert workspace.store.get(run_id).may_retry
    done = rlctl("stop", run_id)
    assert done.code == 0
    assert f"run {run_id}: INTERRUPTED at 0 steps; go on with: rlctl resume {run_id}" in done.out
    assert not workspace.store.get(run_id).may_retry
    assert (rlctl("stop", run_id).code, sent) == (2, [])


def test_a_stranger_of_another_host_is_stopped_there(rlctl: Rlctl, place: Path) -> None:
    folder = RunFolder.create(place / "runs", NewRun(name="far", algo="ppo", env_id="CartPole-v1", config_yaml="{}"))
    status = folder.read_status()
    folder.write_status(type(status)(**{**vars(status), "host": "elsewhere", "state": S.RUNNING}))
    done = rlctl("stop", "far")
    assert done.code == 2
    assert "runs on elsewhere without the store; stop it there" in done.err
    assert "once it has ended" in rlctl("cancel", "far").err


# -- a damaged replay -------------------------------------------------------------------------------------------------


def test_a_damaged_replay_is_named_and_the_run_goes_on_without_it(
    rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer, "SEGMENT_ROWS", 64)
    (place / "dqn.yaml").write_text(tiny_yaml("dqn"))
    run_id = rlctl("launch", "-f", "dqn.yaml", "--quiet").out.split()[0]
    for path in (place / "runs" / run_id / "segments").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert rlctl("eval", run_id, "--episodes", 1).code == 0
    assert rlctl("play", run_id, "--video", "film.webp").code == 0
    assert rlctl("export", run_id, "-o", "bundle", "--format", "bundle").code == 0
    assert "rlctl fork" in rlctl("fork", run_id, "train.epochs=5").err
    assert rlctl("fork", run_id, "train.epochs=5", "name=child", "--empty-replay", "--quiet").code == 0
    assert rlctl("show", "child", "--json").document["exact"] is False
    refused = rlctl("resume", run_id, "train.epochs=5")
    assert (refused.code, refused.err.count("\n")) == (4, 1)
    assert (
        f"its weights at 192 steps are not; go on with an emptied replay, which is not exact: rlctl resume {run_id}"
        in (refused.err)
    )
    detached = rlctl("resume", run_id, "train.epochs=5", "--empty-replay", "--detach")
    assert (detached.code, "--empty-replay with --detach" in detached.err) == (2, True)
    assert rlctl("resume", run_id, "train.epochs=5", "--empty-replay", "--quiet").code == 0
    document = rlctl("show", run_id, "--json").document
    assert (document["state"], document["epoch"], document["exact"]) == ("COMPLETED", 5, False)
    assert document["exact_reason"].startswith("resumed with an emptied replay: segments/")


# -- resume, fork, lineage --------------------------------------------------------------------------------------------


def test_resume_and_fork_in_the_queue(rlctl: Rlctl, workspace: Workspace) -> None:
    assert rlctl("launch", "-f", "tiny.yaml", "-q").code == 0
    run = known_run(workspace, "last")
    refused = rlctl("resume", run.id, "--detach")
    assert refused.code == 2
    assert "it completed its 3 epochs" in refused.err
    assert workspace.store.get(run.id).state == S.COMPLETED
    assert rlctl("resume", run.id, "--detach", "--allow-inexact", "train.epochs=5").code == 2
    assert rlctl("resume", run.id, "train.epochs=5", "--detach").code == 0
    child_id = rlctl("fork", run.id, "train.epochs=4", "--detach", "--quiet").out.split()[-1]
    child = workspace.store.get(child_id)
    assert (child.state, child.parent_id, child.parent_step) == (S.QUEUED, run.id, run.env_steps)
    assert rlctl("worker", "--until-idle", "--slots", "cpu=1").code == 0
    for run_id, epochs in ((run.id, 5), (child_id, 4)):
        done = workspace.store.get(run_id)
        assert (done.state, done.epoch, done.total_epochs) == (S.COMPLETED, epochs, epochs)
    lineage = rlctl("show", child_id, "--lineage", "--json").document
    assert [(entry["depth"], entry["id"]) for entry in lineage["relatives"]] == [(0, run.id), (1, child_id)]
    assert [event["state"] for event in lineage["history"]][-1] == "COMPLETED"
    assert lineage["history"][-1]["token"] == workspace.store.get(child_id).token
    shown = rlctl("show", child_id, "--lineage").out
    assert f"└─ {child_id} at {run.env_steps:,}" in shown
    assert "<- this one" in shown
    assert "forked from" in rlctl("show", child_id).out
    refused = rlctl("rm", run.id, "--yes")
    assert refused.code == 2
    assert f"{child_id} was forked from it" in refused.err
    assert rlctl("rm", run.id, child_id, "--yes").code == 0
    assert workspace.entries() == []


def test_a_bundle_is_forked_by_its_weights(rlctl: Rlctl, workspace: Workspace, place: Path) -> None:
    assert rlctl("launch", "-f", "tiny.yaml", "-q").code == 0
    run = known_run(workspace, "last")
    assert rlctl("export", "last", "-o", "bundle", "--format", "bundle").code == 0
    refused = rlctl("fork", "bundle", "--at", "best")
    assert (refused.code, "leave --at and --empty-replay out" in refused.err) == (2, True)
    refused = rlctl("fork", "bundle", "policy.network.hidden_sizes=[32]")
    assert refused.code == 2
    assert "bundle: its weights are of policy.network.hidden_sizes [8], the run would have [32]" in refused.err
    children = [rlctl("fork", "bundle", "train.epochs=1", "--detach", "-q").out.split()[-1]]
    children.append(orchestrator.fork("bundle", "train.epochs=1", name="mine").id)
    for child_id in children:
        child = workspace.store.get(child_id)
        assert (child.state, child.parent_id, child.parent_step) == (S.QUEUED, run.id, run.env_steps)
        assert child.env_steps == 0
    document = rlctl("show", children[0], "--json").document
    assert document["weights"]["bundle"] == str(place / "bundle")
    assert (document["parent_id"], document["weights"]["checkpoint"]) == (run.id, run.env_steps)
    text = f"the weights of {place / 'bundle'} (sha256 {document['weights']['sha256'][:12]}, of {run.id} at"
    assert text in rlctl("show", children[0]).out
    assert orchestrator.get(children[0]).parent.id == run.id
    assert rlctl("worker", "--until-idle", "--slots", "cpu=1").code == 0
    assert {workspace.store.get(child_id).state for child_id in children} == {S.COMPLETED}


def test_a_resume_of_a_running_one_is_refused_in_both_ways(rlctl: Rlctl, workspace: Workspace) -> None:
    run_id = queued(rlctl)
    assert rlctl("resume", run_id, "--detach").code == 2  # it is in the queue already
    workspace.store.claim(run_id, this_process())
    for way in ([], ["--detach"]):
        refused = rlctl("resume", run_id, *way)
        assert refused.code == 2
        assert f"process {os.getpid()}" in refused.err


def test_logs_wait_for_a_run_that_is_being_started(
    rlctl: Rlctl, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claimed, but its folder is not there yet: it is waited for."""
    run_id = queued(rlctl)
    claimed = workspace.store.claim(run_id, this_process())
    polls: list[float] = []

    def meanwhile(seconds: float) -> None:
        if not polls:
            InProcessLauncher(workspace).launch(claimed, [])
        polls.append(seconds)

    monkeypatch.setattr("rlstudio.cli.commands.looking.logs.time.sleep", meanwhile)
    done = rlctl("logs", "-f", run_id)
    assert done.code == 0
    assert "is in the queue; waiting for it to start" in done.err
    assert "completed" in done.out.splitlines()[-1]


def test_a_run_that_could_not_begin_is_shown_with_its_reason(
    rlctl: Rlctl, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = queued(rlctl)

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(starting, "continuation_of", broken)
    assert rlctl("worker", "--until-idle", "--slots", "cpu=1").code == 0
    assert workspace.store.get(run_id).state == S.FAILED
    assert "ZeroDivisionError: ours" in rlctl("show", run_id).out


# -- keep -------------------------------------------------------------------------------------------------------------


def test_adopt_and_gc(rlctl: Rlctl, workspace: Workspace, place: Path) -> None:
    folder = RunFolder.create(
        place / "usb", NewRun(name="old", algo="ppo", env_id="CartPole-v1", config_yaml="{}"), state=S.FAILED
    )
    folder.close()
    done = rlctl("adopt", folder.path)
    assert (done.code, done.out) == (0, f"run {folder.id}: adopted, FAILED\n")
    assert rlctl("adopt", folder.path).code == 2
    assert rlctl("adopt", place / "nothing").code == 2
    assert rlctl("gc").out == "nothing to delete\n"  # a week is kept
    assert "1 run would be deleted; add --yes" in rlctl("gc", "--days", "0").out
    assert rlctl("gc", "--days", "0", "--json").document == {"would_remove": [folder.id]}
    assert workspace.find(folder.id).has_folder
    assert rlctl("gc", "--days", "0", "--keep", "1", "--yes").out == ""
    assert rlctl("gc", "--days", "0", "--states", "completed,interrupted", "--json").document == {"would_remove": []}
    assert rlctl("gc", "--states", "running").code == 2
    assert rlctl("gc", "--days", "0", "--yes", "--json").document == {"removed": [folder.id]}
    assert workspace.entries() == []
    assert not workspace.folder(folder.id).path.exists()
