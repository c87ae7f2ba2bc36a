"""Every change that a server takes, a folder to make it in, and the places at which the server dies over it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rlstudio.control.registry.records import Stage
from rlstudio.control.registry.releases import Releases
from rlstudio.control.runs.start import start_session
from rlstudio.control.store.database import Database
from rlstudio.control.sweep.sweeps import Sweeps, SweepState
from rlstudio.control.workspace import Workspace
from rlstudio.core.host.process import process_of, this_process
from rlstudio.core.run_state import OWNED, RunState
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.server.api.routers import PREFIX
from rlstudio.server.api.work.tasks import Tasks
from rlstudio.server.api.work.workbench import Workbench
from rlstudio.server.http.records.audit import AuditLog
from support.control_world import request
from support.deadlines import PATIENCE
from support.experiments import tiny_data
from support.http_app import ACT, HOST, Answer, ask, two_tokens
from support.registry_world import write_policy
from support.studio import studio
from support.sweep_world import search_of

KEY = {"Idempotency-Key": "the-one"}
SEARCH = {
    "trials": 1,
    "pruner": {"kind": "none"},
    "experiment": tiny_data("ppo", train={"epochs": 1}),
    "space": {"train.gamma": {"choices": [0.9, 0.99]}},
}


class Server:
    """The whole service over a folder, in this process."""

    def __init__(self, runs_dir: Path) -> None:
        self.app = studio(runs_dir, access=two_tokens(), hosts={HOST})
        self.workspace = Workspace(runs_dir)

    def ask(self, method: str, path: str, body: Any = b"", **headers: str) -> Answer:
        given = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return ask(self.app, method, PREFIX + path, ACT, body, [*given, *(KEY.items() if method == "POST" else ())])

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == HTTPStatus.OK, answer.body
        return answer.json


@contextmanager
def serving(runs_dir: Path) -> Iterator[Server]:
    server = Server(runs_dir)
    try:
        yield server
    finally:
        server.app.state.service.close()


# -- where it dies -----------------------------------------------------------------------------------------------------


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_after(function: Callable[..., Any], calls: int = 1) -> Callable[..., Any]:
    """The real thing; the process is killed once it has been done so often."""
    done = []

    def wrapped(*args: Any, **given: Any) -> Any:
        result = function(*args, **given)
        done.append(1)
        if len(done) >= calls:
            die()
        return result

    return wrapped


@contextmanager
def workbench_in_this_process() -> Iterator[None]:
    """So that a kill takes the server and its workbench at the same place."""

    def do(bench: Workbench, task: str, arguments: dict[str, Any]) -> Any:
        return Tasks(bench._workspace.runs_dir, ()).known()[task](**arguments)

    with patch.object(Workbench, "do", do):
        yield


@contextmanager
def _dying_at_a_commit(number: int) -> Iterator[None]:
    whole, done = Database.write, []

    @contextmanager
    def write(database: Database) -> Iterator[Any]:
        with whole(database) as connection:
            yield connection
        done.append(1)
        if len(done) == number:
            die()

    with patch.object(Database, "write", write):
        yield


POINTS: dict[str, Callable[[], Any]] = {
    "accepted": lambda: patch.object(AuditLog, "begin", die),
    "first commit": lambda: _dying_at_a_commit(1),
    "second commit": lambda: _dying_at_a_commit(2),
    "spawned": lambda: patch("subprocess.Popen", dies_after(subprocess.Popen)),
    "done": lambda: patch.object(AuditLog, "end", die),
}
"""Between a request and its answer. Not every change has each of them: a server that was not killed has answered."""


# -- what is asked of it -----------------------------------------------------------------------------------------------


class Folder:
    """Copies of one folder with something for every change. `sleeper`: the process that owns what runs in it."""

    def __init__(self, place: Path, sleeper: int) -> None:
        self.runs_dir = place / "runs"
        workspace = Workspace(self.runs_dir)
        store, owner = workspace.store, process_of(sleeper)
        with start_session(
            workspace, experiment_from(tiny_data("ppo", train={"epochs": 1}, name="trained"))
        ) as trained:
            for _ in trained:
                pass
        for name in ("queued", "other"):
            store.create(request(name=name))
        living = store.create(request(name="living"), owner=owner)
        store.move(living.id, living.token, RunState.RUNNING)
        sweeps = Sweeps(store.database)
        for name in ("driven", "left"):
            sweep = sweeps.create(name, search_of(**SEARCH, name=name).to_json(), this_process())
            if name == "left":
                sweeps.end(sweep, SweepState.STOPPED)
        store.create(request(name="trial", sweep="driven", trial=0))
        releases = Releases(workspace)
        for skill in (0.5, 0.7, 1.0):
            releases.register_bundle("toy", write_policy(place / str(skill), skill).path)
            version = releases.find(f"toy:{len(releases.versions('toy'))}")
            releases.registry.promote("toy", version.version, Stage.PRODUCTION)
        releases.register_bundle("toy", write_policy(place / "new", 0.9).path)
        store.database.close()

    def copy(self, place: Path) -> Path:
        return Path(shutil.copytree(self.runs_dir, place / "runs"))


@dataclass(frozen=True)
class Change:
    """One request, and what is so once it was answered, however often it was asked for and wherever a server died."""

    method: str
    path: str
    body: Any = field(default_factory=dict)
    statuses: tuple[int, ...] = (200, 201, 202, 204)
    holds: Callable[[Server, Answer], object] = lambda server, answer: None
    points: tuple[str, ...] = ("accepted", "first commit", "done")
    starts: bool = False  # a process: these take longest

    @property
    def route(self) -> tuple[str, str]:
        """As it is declared."""
        parts = self.path.split("/")
        places = {"runs": "{ref}", "sweeps": "{name}", "models": "{name}", "tokens": "{name}"}
        if len(parts) > 2:
            parts[2] = places.get(parts[1], parts[2])
        return self.method, PREFIX + "/".join(parts)


def settled(server: Server, name: str, states: frozenset[RunState] = OWNED | {RunState.QUEUED}) -> list[Any]:
    """The runs of a name, once none is in these states."""
    until = time.monotonic() + PATIENCE
    while True:
        server.workspace.reap()
        runs = [run for run in server.workspace.store.runs() if run.name == name]
        if all(run.state not in states for run in runs):
            return runs
        assert time.monotonic() < until, [run.state for run in runs]
        time.sleep(0.05)


def one(server: Server, name: str) -> Any:
    (run,) = [run for run in server.workspace.store.runs() if run.name == name]
    return run


def _states(server: Server, name: str) -> list[str]:
    return [event.state for event in server.workspace.records.events(one(server, name).id)]


def _moved_once(name: str, *states: str) -> Callable[[Server, Answer], None]:
    def holds(server: Server, answer: Answer) -> None:
        assert answer.json["name"] == name
        assert _states(server, name)[-len(states) :] == [*states]
        assert not {*states} & {*_states(server, name)[: -len(states)]}

    return holds


def _trained_once(name: str, epochs: int, attempts: int) -> Callable[[Server, Answer], None]:
    def holds(server: Server, answer: Answer) -> None:
        (run,) = settled(server, name)
        assert answer.json["id"] == run.id
        assert (run.state, run.epoch, run.attempt) == (RunState.COMPLETED, epochs, attempts)

    return holds


def _swept_once(name: str) -> Callable[[Server, Answer], None]:
    def holds(server: Server, answer: Answer) -> None:
        assert answer.json["name"] == name
        until = time.monotonic() + PATIENCE
        while server.get(f"/sweeps/{name}")["state"] != "COMPLETED":
            assert time.monotonic() < until, server.get(f"/sweeps/{name}")
            time.sleep(0.1)
        (run,) = server.workspace.store.runs(sweep=name)
        assert (run.state, run.attempt) == (RunState.COMPLETED, 1)

    return holds


def _operated_once(server: Server, answer: Answer) -> None:
    until = time.monotonic() + PATIENCE
    while (document := server.get(f"/operations/{answer.json['id']}"))["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert document["state"] == "done", document
    assert len([*(server.workspace.state_dir / "server/operations").glob("*.json")]) == 1


def _rolled_back_once(server: Server, answer: Answer) -> None:
    assert answer.json["version"] == server.get("/models/toy")["production"] == 2


def _sweep_stands_still(server: Server, answer: Answer) -> None:
    assert answer.json["state"] == "STOPPED"
    assert one(server, "trial").is_paused


def _is_gone(path: str) -> Callable[[Server, Answer], None]:
    def holds(server: Server, answer: Answer) -> None:
        assert server.ask("GET", path).status == HTTPStatus.NOT_FOUND
        assert not [folder for folder in server.workspace.runs_dir.iterdir() if folder.name.startswith(".trash")]

    return holds


def _one_token(server: Server, answer: Answer) -> None:
    assert [row["name"] for row in server.get("/tokens")["items"] if row["state"] == "active"] == ["robot"]


def _in_order(server: Server, answer: Answer) -> None:
    names = [row["name"] for row in server.get("/queue")["queued"]]
    assert names.index("other") < names.index("queued")


EVERY = ("accepted", "first commit", "spawned", "done")
LONGER = {"overrides": ["train.epochs=2"]}
CHANGES = {
    "stop": Change("POST", "/runs/living/stop", holds=_moved_once("living", "STOPPING")),
    "cancel": Change("POST", "/runs/queued/cancel", holds=_moved_once("queued", "CANCELLED")),
    "pause": Change("POST", "/runs/queued/pause", holds=_moved_once("queued", "INTERRUPTED")),
    "resume": Change("POST", "/runs/trained/resume", LONGER, (202,), _trained_once("trained", 2, 2), EVERY, True),
    "fork": Change(
        "POST", "/runs/trained/fork", {**LONGER, "name": "child"}, (201,), _trained_once("child", 2, 2), EVERY, True
    ),
    "annotate": Change("PATCH", "/runs/queued", {"note": "seen"}),
    "remove": Change("DELETE", "/runs/trained", b"", (204, 404), _is_gone("/runs/trained")),
    "order": Change("POST", "/queue/order", {"ids": ["other", "queued"]}, (200,), _in_order),
    "sweep": Change(
        "POST",
        "/sweeps",
        {"config": {**SEARCH, "name": "begun", "sampler": {"kind": "random", "seed": 1}}},
        (201,),
        _swept_once("begun"),
        ("accepted", "first commit", "second commit", "spawned", "done"),
        True,
    ),
    "stop a sweep": Change("POST", "/sweeps/driven/stop", b"", (200,), _sweep_stands_still),
    "resume a sweep": Change("POST", "/sweeps/left/resume", b"", (202,), _swept_once("left"), EVERY, True),
    "remove a sweep": Change("DELETE", "/sweeps/left", b"", (204, 404), _is_gone("/sweeps/left")),
    "promote": Change(
        "POST",
        "/models/toy/promote",
        {"what": "toy:4", "to": "staging"},
        (202,),
        _operated_once,
        ("accepted", "spawned", "done"),
        True,
    ),
    "roll back": Change("POST", "/models/toy/rollback", b"", (200,), _rolled_back_once),
    "export": Change(
        "POST", "/runs/trained/export", {"formats": []}, (202,), _operated_once, ("accepted", "spawned", "done"), True
    ),
    "add a token": Change("POST", "/tokens", {"name": "robot"}, (201, 409), _one_token, ("accepted", "done")),
    "revoke a token": Change("DELETE", "/tokens/nobody", b"", (404,), points=("accepted", "done")),
}
