"""Every method of the client against the application that it is for: what it sends is taken, what comes back fits."""

from __future__ import annotations

import inspect
from contextlib import suppress
from types import SimpleNamespace

import httpx
import pytest

from rlstudio.client import Client
from rlstudio.client.runs import RunRoutes
from rlstudio.client.service import ModelRoutes, SweepRoutes, TokenRoutes
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import RLStudioError
from rlstudio.server.api.work.operations import Operations
from rlstudio.server.api.work.workbench import Workbench
from support.control_world import request
from support.experiments import tiny_data, tiny_yaml
from support.http_app import ACT, HOST, ask, two_tokens
from support.reading_world import fill
from support.studio import studio

GROUPS = {"": Client, "runs.": RunRoutes, "sweeps.": SweepRoutes, "models.": ModelRoutes, "tokens.": TokenRoutes}
EVERY = {
    prefix + name
    for prefix, group in GROUPS.items()
    for name, member in vars(group).items()
    if inspect.isfunction(member) and not name.startswith("_")
}
OTHERWISE = {"close", "stream", "ended", "finished", "download", "understood"}
"""They send nothing of their own, or do not end; `test_client.py` and the story have them."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    runs_dir = tmp_path_factory.mktemp("client") / "runs"
    workspace = Workspace(runs_dir)
    made = fill(workspace)
    workspace.store.database.close()
    return SimpleNamespace(runs_dir=runs_dir, trained=made.trained_folder_only, queued=made.queued)


@pytest.fixture
def server(world, monkeypatch):
    """`client` of an application in this process whose workbench and operations begin nothing; `refused`: what was
    said to be wrong with a request."""
    sent = []

    def do(bench, task, arguments):
        sent.append(task)
        return {"launch": [world.queued], "fork": world.queued, "sweep": "found", "validate": {"ok": True}}.get(task)

    def begin(operations, kind, arguments, key):
        return {"id": "0" * 24, "kind": kind, "state": "running"}

    monkeypatch.setattr(Workbench, "do", do)
    monkeypatch.setattr(Operations, "begin", begin)
    monkeypatch.setenv("RLSTUDIO_TOKEN", ACT)
    app = studio(world.runs_dir, access=two_tokens(), hosts={HOST})
    refused = []

    def answer(asked: httpx.Request) -> httpx.Response:
        names = [(name, value) for name, value in asked.headers.items() if name not in ("host", "authorization")]
        given = ask(app, asked.method, asked.url.raw_path.decode(), ACT, asked.content, names)
        if given.status == 422:
            refused.extend(given.json.get("problems", ()))
        return httpx.Response(given.status, content=given.body, headers=given.headers)

    with Client(f"http://{HOST}", transport=httpx.MockTransport(answer)) as client:
        yield SimpleNamespace(client=client, refused=refused, sent=sent, store=app.state.service.acting.store)
    app.state.service.close()


def calls(server, world, target):
    """Each method with everything that it takes."""
    client, run = server.client, server.store.create(request(name="new")).id
    config, both = tiny_data("ppo"), tiny_yaml("ppo")
    more = {"name": "mine", "seed": 3, "priority": 2}
    return {
        "launch": lambda: client.launch(config, ["train.epochs=2"], key="a", **more),
        "launch_seeds": lambda: client.launch_seeds(2, preset="ppo/cartpole", key="b"),
        "validate": lambda: client.validate(both, ["train.epochs=2"], seeds=2, **more),
        "compare": lambda: client.compare([world.trained], "train/loss", minimize=True),
        "curves": lambda: client.curves([world.trained], "eval/return_mean", 50),
        "queue": client.queue,
        "order_queue": lambda: client.order_queue([run]),
        "operation": lambda: client.operation("0" * 24),
        "catalog": client.catalog,
        "preset": lambda: client.preset("ppo/cartpole"),
        "schema": lambda: client.schema("ppo"),
        "sweep_schema": client.sweep_schema,
        "health": client.health,
        "me": client.me,
        "audit": client.audit,
        "server_metrics": client.server_metrics,
        "runs.page": lambda: client.runs.page(
            limit=5, spark=8, states=["queued"], envs=["x"], algos=["ppo"], tags=["a"], names=["new"], sort="name"
        ),
        "runs.list": lambda: list(client.runs.list(3)),
        "runs.get": lambda: client.runs.get(run),
        "runs.change": lambda: client.runs.change(run, tags=["a"], note="b", priority=3),
        "runs.delete": lambda: client.runs.delete(server.store.create(request()).id),
        "runs.stop": lambda: client.runs.stop(run, key="c"),
        "runs.cancel": lambda: client.runs.cancel(server.store.create(request()).id, key="d"),
        "runs.pause": lambda: client.runs.pause(server.store.create(request()).id, key="e"),
        "runs.resume": lambda: client.runs.resume(world.trained, ["train.epochs=9"], key="f"),
        "runs.fork": lambda: client.runs.fork(world.trained, ["train.lr=1e-4"], at="best", seed=1, name="x", key="g"),
        "runs.wait": lambda: client.runs.wait(world.trained, 1.0),
        "runs.config": lambda: client.runs.config(world.trained, "parent"),
        "runs.metrics": lambda: client.runs.metrics(world.trained),
        "runs.series": lambda: client.runs.series(world.trained, ["train/loss"]),
        "runs.metrics_csv": lambda: list(client.runs.metrics_csv(world.trained, ["train/loss"])),
        "runs.events": lambda: client.runs.events(world.trained, 1, 5),
        "runs.log": lambda: client.runs.log(world.trained, -10, 5),
        "runs.checkpoints": lambda: client.runs.checkpoints(world.trained),
        "runs.artifacts": lambda: client.runs.artifacts(world.trained),
        "runs.download_artifact": lambda: client.runs.download_artifact(world.trained, "a/b.txt", target),
        "runs.export": lambda: client.runs.export(world.trained, "best", ["bundle"], key="h"),
        "sweeps.list": client.sweeps.list,
        "sweeps.get": lambda: client.sweeps.get("found"),
        "sweeps.best": lambda: client.sweeps.best("found"),
        "sweeps.launch": lambda: client.sweeps.launch(both, name="mine", max_concurrent=2, key="i"),
        "sweeps.stop": lambda: client.sweeps.stop("other", key="j"),
        "sweeps.resume": lambda: client.sweeps.resume("found", key="k"),
        "sweeps.delete": lambda: client.sweeps.delete("other"),
        "models.list": client.models.list,
        "models.get": lambda: client.models.get("cartpole"),
        "models.version": lambda: client.models.version("cartpole", 1),
        "models.audit": lambda: client.models.audit("cartpole"),
        "models.download_bundle": lambda: client.models.download_bundle("other", 1, target),
        "models.promote": lambda: client.models.promote(
            "cartpole", "cartpole:1", to="staging", checkpoint=7, if_current=0, force="x", settings={"budget": 9}
        ),
        "models.rollback": lambda: client.models.rollback("cartpole", "why", if_current=1, key="m"),
        "tokens.list": client.tokens.list,
        "tokens.add": lambda: client.tokens.add("robot", "read", 1.0),
        "tokens.revoke": lambda: client.tokens.revoke("robot"),
    }  # fmt: skip


def test_every_method_sends_what_the_server_takes(server, world, tmp_path):
    """It may be refused for the state of things, never for a field that the server does not know or want."""
    made = calls(server, world, tmp_path / "target")
    assert made.keys() | OTHERWISE == EVERY
    for name, call in made.items():
        with suppress(RLStudioError):
            call()
        assert server.refused == [], name
    assert {"launch", "validate", "fork", "resume", "sweep"} <= {*server.sent}
