"""The server is killed at every point between a request and its answer. The same request again, with its key, ends as
if nothing had happened: one run, which one process trains, and nothing that waits for a process that is gone."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from rlstudio.control.workspace import Workspace
from rlstudio.core.run_state import OWNED
from rlstudio.server.api.work import tasks as tasks_module
from rlstudio.server.api.work.tasks import Tasks
from rlstudio.server.api.work.workbench import Workbench
from support.api_world import api_over
from support.control_world import S, request
from support.deadlines import PATIENCE
from support.experiments import tiny_data
from support.processes import in_child

BODY = {"config": tiny_data("ppo", train={"epochs": 2}, name="wanted"), "seeds": 2}
KEY = {"Idempotency_Key": "the-one"}


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def dies_after(function, calls=1):
    """The real thing; the process is killed once it has been done so often."""
    done = []

    def wrapped(*args, **given):
        result = function(*args, **given)
        done.append(1)
        if len(done) >= calls:
            die()
        return result

    return wrapped


@contextmanager
def workbench_in_this_process():
    """So that a kill takes the server and its workbench at the same place."""

    def do(bench, task, arguments):
        return Tasks(bench._workspace.runs_dir, ()).known()[task](**arguments)

    with patch.object(Workbench, "do", do):
        yield


POINTS = {
    "accepted": lambda: patch.object(Workbench, "do", die),
    "first run committed": lambda: patch("rlstudio.control.store.store.Store.create", dies_after(store_create(), 1)),
    "both runs committed": lambda: patch("rlstudio.control.store.store.Store.create", dies_after(store_create(), 2)),
    "before the worker": lambda: patch.object(tasks_module, "ensure_worker", die),
    "after the worker": lambda: patch.object(tasks_module, "ensure_worker", dies_after(tasks_module.ensure_worker)),
    "before the answer": lambda: patch("rlstudio.server.api.routes.experiments.answer", die),
}


def store_create():
    from rlstudio.control.store.store import Store

    return Store.create


def settled(workspace, ids):
    until = time.monotonic() + PATIENCE
    while True:
        entries = workspace.entries_of(ids)
        if all(entry.status.state not in OWNED | {S.QUEUED} for entry in entries):
            return entries
        assert time.monotonic() < until, [entry.status.state for entry in entries]
        time.sleep(0.1)


@pytest.mark.real_process
@pytest.mark.parametrize("point", POINTS)
def test_a_launch_that_is_asked_for_again_is_one_launch(tmp_path, point):
    runs_dir = tmp_path / "runs"

    def serve():
        with workbench_in_this_process(), POINTS[point](), api_over(runs_dir) as api:
            api.post("/experiments", BODY, **KEY)

    assert in_child(serve) == signal.SIGKILL
    with api_over(runs_dir) as api:
        answer = api.post("/experiments", BODY, **KEY)
        assert answer.status == 201, answer.body
        ids = [run["id"] for run in answer.json["runs"]]
        assert api.get("/runs?name=wanted")["total"] == 2
        assert [run["id"] for run in api.post("/experiments", BODY, **KEY).json["runs"]] == ids
        entries = settled(Workspace(runs_dir), ids)
        assert [entry.status.state for entry in entries] == [S.COMPLETED] * 2
        assert [entry.run.attempt for entry in entries] == [1, 1]  # nobody else has trained them
        assert api.get("/queue")["running"] == []


@pytest.mark.real_process
@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("what", ["cancel", "pause"])
def test_a_steering_that_is_asked_for_again_is_done_once(tmp_path, what, point):
    runs_dir = tmp_path / "runs"
    run = Workspace(runs_dir).store.create(request())
    at = {
        "before": lambda: patch("rlstudio.server.api.routes.steering.EndRequest", die),
        "after": lambda: patch("rlstudio.server.api.routes.steering.answered", die),
    }

    def serve():
        with at[point](), api_over(runs_dir) as api:
            api.post(f"/runs/{run.id}/{what}", **KEY)

    assert in_child(serve) == signal.SIGKILL
    with api_over(runs_dir) as api:
        answer = api.post(f"/runs/{run.id}/{what}", **KEY)
        assert answer.status == 200, answer.body
        assert answer.json["state"] == {"cancel": "CANCELLED", "pause": "INTERRUPTED"}[what]
        moves = [event.state for event in Workspace(runs_dir).records.events(run.id)]
        assert len(moves) == 2  # queued, and the end that was asked for: once


@pytest.mark.real_process
def test_an_operation_whose_server_died_before_it_began_is_begun_again(tmp_path):
    """Its file says running and nobody holds its lock: that shows as failed, and the same key begins it anew."""
    runs_dir = tmp_path / "runs"
    Workspace(runs_dir).store.create(request(name="never-ran"))

    def serve():
        with patch("rlstudio.server.api.work.operations.Operations._start", die), api_over(runs_dir) as api:
            api.post("/runs/never-ran/export", {}, **KEY)

    assert in_child(serve) == signal.SIGKILL
    with api_over(runs_dir) as api:
        (name,) = [path.stem for path in (runs_dir / ".rlstudio/server/operations").glob("*.json")]
        assert api.get(f"/operations/{name}")["state"] == "failed"
        begun = api.post("/runs/never-ran/export", {}, **KEY)
        assert begun.json["id"] == name
        until = time.monotonic() + PATIENCE
        while (document := api.get(f"/operations/{name}"))["state"] == "running":
            assert time.monotonic() < until
            time.sleep(0.1)
        assert "never run" in document["error"]["detail"]
