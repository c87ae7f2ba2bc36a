"""The server is killed at every point between a request and its answer. The same request again, with its key, ends as
if nothing had happened: one change, one process that trains, and nothing that waits for a process that is gone."""

from __future__ import annotations

import json
import signal
import subprocess
from unittest.mock import patch

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.server.api.work import tasks as tasks_module
from rlstudio.server.api.work.workbench import Workbench
from rlstudio.server.http.app import decisions
from support.control_world import request
from support.experiments import tiny_data
from support.killed_server import (
    CHANGES,
    POINTS,
    Change,
    Folder,
    die,
    dies_after,
    serving,
    settled,
    workbench_in_this_process,
)
from support.processes import in_child

LAUNCH = Change("POST", "/experiments", {"config": tiny_data("ppo", train={"epochs": 2}, name="wanted"), "seeds": 2})
SHORT = ("POST", "/experiments")
OF_BROWSERS = {("POST", "/login"), ("POST", "/logout")}
"""They change a session in memory."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    command = ["env", "--ignore-signal=TERM", "sleep", "100000"]  # a run that is long in coming to its safe point
    sleeper = subprocess.Popen(command)
    yield Folder(tmp_path_factory.mktemp("killed"), sleeper.pid)
    sleeper.kill()
    sleeper.wait()


def killed(runs_dir, change, point) -> int:
    """The wait status of a server that was asked for this."""

    def serve():
        with workbench_in_this_process(), point, serving(runs_dir) as server:
            server.ask(change.method, change.path, change.body)

    return in_child(serve, starts_workers=True)


def lose_answers(server) -> None:
    """As a server leaves it that is killed before it has answered."""
    for file in (server.workspace.state_dir / "server/answers").rglob("*.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "answer": None}))


LAUNCH_POINTS = {
    "accepted": lambda: patch.object(Workbench, "do", die),
    "first run committed": POINTS["first commit"],
    "both runs committed": POINTS["second commit"],
    "before the worker": lambda: patch.object(tasks_module, "ensure_worker", die),
    "after the worker": lambda: patch.object(tasks_module, "ensure_worker", dies_after(tasks_module.ensure_worker)),
    "before the answer": lambda: patch("rlstudio.server.api.routes.experiments.answer", die),
}


QUICK = ("first run committed", "after the worker")


@pytest.mark.real_process
@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=[pytest.mark.slow] * (point not in QUICK)) for point in LAUNCH_POINTS]
)
def test_a_launch_that_is_asked_for_again_is_one_launch(tmp_path, point):
    assert killed(tmp_path / "runs", LAUNCH, LAUNCH_POINTS[point]()) == signal.SIGKILL
    with serving(tmp_path / "runs") as server:
        answer = server.ask(LAUNCH.method, LAUNCH.path, LAUNCH.body)
        assert answer.status == 201, answer.body
        ids = [run["id"] for run in answer.json["runs"]]
        assert server.get("/runs?name=wanted")["total"] == 2
        again = server.ask(LAUNCH.method, LAUNCH.path, LAUNCH.body)
        assert [run["id"] for run in again.json["runs"]] == ids
        runs = settled(server, "wanted")
        assert {run.id for run in runs} == {*ids}
        # Nobody else has trained them.
        assert [(run.state, run.attempt) for run in runs] == [(RunState.COMPLETED, 1)] * 2
        assert server.get("/queue")["running"] == []


def test_every_change_that_a_server_takes_is_among_them(folder, tmp_path):
    with serving(folder.copy(tmp_path)) as server:
        changing = {
            (method, path) for path, method, _ in decisions(server.app) if method not in ("GET", "HEAD")
        } - OF_BROWSERS
    assert {change.route for change in [LAUNCH, *CHANGES.values()]} | {SHORT} == changing


CASES = [
    pytest.param(
        name,
        point,
        id=f"{name}, {point}",
        # A process takes seconds: each kind of change has one of its points in the quick suite.
        marks=[pytest.mark.slow] * (change.starts and point != change.points[1 + number % 2]),
    )
    for number, (name, change) in enumerate(CHANGES.items())
    for point in change.points
]


@pytest.mark.real_process
@pytest.mark.parametrize(("name", "point"), CASES)
def test_a_change_that_is_asked_for_again_is_made_once(folder, tmp_path, name, point):
    change, runs_dir = CHANGES[name], folder.copy(tmp_path)
    assert killed(runs_dir, change, POINTS[point]()) == signal.SIGKILL
    with serving(runs_dir) as server:
        answer = server.ask(change.method, change.path, change.body)
        assert answer.status in change.statuses, answer.body
        change.holds(server, answer)
        if change.method == "POST" and change.path != "/tokens":
            # Also where a server died once more, and all that was begun has ended by now.
            lose_answers(server)
            late = server.ask(change.method, change.path, change.body)
            assert late.status in (200, *change.statuses), late.body
            change.holds(server, late)


def test_a_key_means_the_run_that_it_meant_whatever_last_and_its_etag_are_by_now(folder, tmp_path):
    with serving(folder.copy(tmp_path)) as server:
        seen = server.get("/runs/last")
        cancelled = server.ask("POST", "/runs/last/pause", If_Match=seen["etag"])
        assert cancelled.json["id"] == seen["id"]
        server.workspace.store.create(request(name="newer"))
        lose_answers(server)
        again = server.ask("POST", "/runs/last/pause", If_Match=seen["etag"])
        assert (again.status, again.json["id"]) == (200, seen["id"])
        assert server.get("/runs/newer")["state"] == "QUEUED"


@pytest.mark.real_process
def test_an_operation_whose_server_died_before_it_began_is_begun_again(folder, tmp_path):
    """Its file says running and nobody holds its lock: that shows as failed, and the same key begins it anew."""
    runs_dir, change = folder.copy(tmp_path), CHANGES["export"]
    point = patch("rlstudio.server.api.work.operations.Operations._start", die)
    assert killed(runs_dir, change, point) == signal.SIGKILL
    with serving(runs_dir) as server:
        (name,) = [path.stem for path in (runs_dir / ".rlstudio/server/operations").glob("*.json")]
        assert server.get(f"/operations/{name}")["state"] == "failed"
        begun = server.ask(change.method, change.path, change.body)
        assert begun.json["id"] == name
        change.holds(server, begun)
        assert json.loads((runs_dir / f".rlstudio/server/operations/{name}.json").read_text())["state"] == "done"
