"""Every text that a client can write, by the OpenAPI document: in paths, queries, headers and bodies, and in the
experiments and sweeps inside bodies. Each field gets texts of four classes of bugs that other services had."""

from __future__ import annotations

import itertools
import json
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from rlstudio.control.workspace import Workspace
from rlstudio.server.api.work.operations import Operations
from rlstudio.server.api.work.tasks import Tasks
from rlstudio.server.api.work.workbench import Workbench
from support.api_world import quoted
from support.experiments import tiny_data
from support.http_app import ACT, HOST, Answer, ask, two_tokens
from support.path_vectors import TEXTS
from support.reading_world import fill, tree
from support.studio import studio

SHARE = 24
"""Each field gets every 24th text of the long list in the quick suite, each another share; all in the slow one."""

VALID = {"number": "1", "operation": "0" * 24, "name": "none", "points": "50", "topics": "runs"}
BODIES: dict[str, dict[str, Any]] = {
    "ExperimentBody": {"validate_only": True},
    "SweepBody": {"validate_only": True},
    "OrderBody": {"ids": []},
    "NewToken": {"name": "x"},
    "PromoteBody": {"what": "none"},
}
"""What the other fields hold; an experiment and a sweep are only judged."""

EXPERIMENT = tiny_data("ppo")
SWEEP = {"name": "s", "trials": 1, "space": {"train.lr": {"choices": [0.1]}}, "experiment": EXPERIMENT}
INSIDE: dict[str, Callable[[str], dict[str, Any]]] = {
    "name": lambda text: {"name": text},
    "imports": lambda text: {"imports": [text]},
    "env.id": lambda text: {"env": {"id": text}},
    "env.kwargs": lambda text: {"env": {"id": "CartPole-v1", "kwargs": {"render_mode": text}}},
    "env.kwargs, deep": lambda text: {"env": {"id": "CartPole-v1", "kwargs": {"a": [{"_target_": text}]}}},
    "env.kwargs, a key": lambda text: {"env": {"id": "CartPole-v1", "kwargs": {text: 1}}},
    "env.wrappers": lambda text: {"env": {"id": "CartPole-v1", "wrappers": [text]}},
    "env, a key": lambda text: {"env": {"id": "CartPole-v1", "entry_point": text, text: text}},
    "policy.algo": lambda text: {"policy": {"algo": text}},
    "policy.network": lambda text: {"policy": {"algo": "ppo", "network": {"_target_": text, "kind": text}}},
    "train": lambda text: {"train": {"dataset": text, "planner": {"_target_": text}}},
    "tracking": lambda text: {"tracking": {"sinks": [{"kind": text}, {"kind": "mlflow", "uri": text}]}},
    "resources": lambda text: {"resources": {"backend": "ray", "address": text}},
    "runtime": lambda text: {"runtime": {"device": text}},
    "a key": lambda text: {text: {"_target_": text}},
}
"""Places of an experiment that reach a name, a file, a module or an address."""

IN_SWEEP: dict[str, Callable[[str], dict[str, Any]]] = {
    "overrides, env.id": lambda text: {"overrides": [f"env.id={json.dumps(text)}"]},
    "overrides, env": lambda text: {"overrides": [f"env={json.dumps({'id': text})}"]},
    "overrides, hidden": lambda text: {"overrides": [f"env.id={json.dumps(text)}", "env.id=CartPole-v1"]},
    "overrides, env.wrappers": lambda text: {"overrides": [f"env.wrappers={json.dumps([text])}"]},
    "space, env.id": lambda text: {"space": {"env.id": {"choices": ["CartPole-v1", text]}}},
    "space, env": lambda text: {"space": {"env": {"choices": [{"id": text}]}}},
    "space, env.wrappers": lambda text: {"space": {"env.wrappers": {"choices": [[text]]}}},
}
"""Where a sweep says what differs from its experiment."""

HARMLESS = ("name", "env.kwargs", "env.kwargs, deep", "env.kwargs, a key")
"""Those that may hold such a word: a name, and what an environment takes or refuses."""


@dataclass(frozen=True)
class Field:
    """`where`: path, query, header, body or one of INSIDE."""

    method: str
    path: str
    where: str
    name: str
    body: str = ""
    is_list: bool = False

    @property
    def label(self) -> str:
        return f"{self.method} {self.path} {self.where} {self.name}"

    def send(self, app: Any, text: str) -> Answer:
        target, headers, document = self.path, [], None
        if self.where == "path":
            target = target.replace(f"{{{self.name}}}", quoted(text.encode("utf-8", "replace").decode()))
        for name in ("ref", "number", "operation", "name"):
            target = target.replace(f"{{{name}}}", VALID.get(name, "queued"))
        if self.where == "query":
            target += f"?{self.name}={quoted(text.encode('utf-8', 'replace').decode())}"
        if self.where == "header":
            headers = [(self.name, text.encode("utf-8", "replace").decode("latin-1"))]
        if self.body:
            document = dict(BODIES.get(self.body, {}))
        if self.where == "body":
            assert document is not None
            document[self.name] = [text] if self.is_list else text
        if self.where in INSIDE:
            assert document is not None
            inside = {**EXPERIMENT, **INSIDE[self.where](text)}
            document["config"] = {**SWEEP, "experiment": inside} if self.body == "SweepBody" else inside
        if self.where in IN_SWEEP:
            assert document is not None
            document["config"] = {**SWEEP, **IN_SWEEP[self.where](text)}
        return ask(app, self.method, target, ACT, b"" if document is None else document, headers)


def fields_of(app: Any) -> Iterator[Field]:
    document = app.openapi()
    for path, operations in document["paths"].items():
        if path.endswith("/stream"):  # it ends for what is refused alone; `test_stream.py` has its fields
            continue
        for method, operation in operations.items():
            for parameter in operation.get("parameters", ()):
                if "string" in str(parameter["schema"]):
                    yield Field(method.upper(), path, parameter["in"], parameter["name"])
            for content in operation.get("requestBody", {}).get("content", {}).values():
                (name,) = {part.rpartition("/")[2] for part in _references(content["schema"])}
                for key, schema in document["components"]["schemas"][name]["properties"].items():
                    if "'string'" in str(schema):
                        yield Field(method.upper(), path, "body", key, name, "'array'" in str(schema))
                    if key == "config":
                        places = [*INSIDE, *(IN_SWEEP if name == "SweepBody" else ())]
                        yield from (Field(method.upper(), path, place, "", name) for place in places)


def _references(schema: Any) -> Iterator[str]:
    for key, value in schema.items():
        if key == "$ref":
            yield value
        elif isinstance(value, list):
            yield from itertools.chain.from_iterable(map(_references, value))


class World:
    """An application that starts no process, over a folder with a run of each kind, beside things not to be touched."""

    def __init__(self, place: Any) -> None:
        self.place, self.runs_dir = place, place / "runs"
        workspace = Workspace(self.runs_dir)
        self.made = fill(workspace)
        workspace.store.database.close()
        self.outside = place / "outside"
        self.outside.mkdir()
        (self.outside / "canary").write_text("the canary")
        for folder in (place, self.runs_dir, self.outside):
            (folder / "evil.py").write_text(f"open({str(place / 'imported')!r}, 'w')\n")
        self.complaints: list[str] = []
        self.app = studio(self.runs_dir, access=two_tokens(), hosts={HOST}, complain=self.complaints.append)
        self.fields = [*fields_of(self.app)]

    def aimed(self, text: str) -> str:
        known = {"{id}": self.made.trained_folder_only, "{victim}": "canary", "{outside}": str(self.outside)}
        for word, value in known.items():
            text = text.replace(word, value)
        return text

    def answers(self, *texts: str) -> Iterator[tuple[Field, str, Answer]]:
        """Each text in each field. No answer is a defect of ours."""
        for field in self.fields:
            for text in texts:
                answer = field.send(self.app, self.aimed(text))
                assert answer.status < 500, (field.label, text, answer)
                yield field, text, answer


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    tasks: dict[Any, Tasks] = {}

    def do(bench, task, arguments):
        known = tasks.setdefault(bench, Tasks(bench._workspace.runs_dir, ())).known()[task]
        try:
            return known(**arguments)
        except SystemExit as error:
            raise AssertionError(task) from error

    with (
        patch.object(Workbench, "do", do),
        patch.object(Operations, "_start", lambda *_: None),
        patch("rlstudio.server.api.work.tasks.ensure_worker", lambda workspace: None),
        patch("rlstudio.server.api.work.tasks.start_driver", lambda *_: None),
    ):
        world = World(tmp_path_factory.mktemp("fields"))
        yield world
        world.app.state.service.close()


def test_the_document_has_the_fields_that_are_meant(world):
    labels = {field.label for field in world.fields}
    assert len(labels) > 100
    for label in (
        "GET /api/v1/runs/{ref} path ref",
        "GET /api/v1/runs query q",
        "POST /api/v1/runs/{ref}/stop header If-Match",
        "POST /api/v1/queue/order body ids",
        "POST /api/v1/experiments env.id ",
        "POST /api/v1/sweeps imports ",
        "POST /api/v1/sweeps space, env.id ",
        "POST /api/v1/runs/{ref}/fork body overrides",
    ):
        assert label in labels


@pytest.mark.parametrize("share", [pytest.param(1, id="a share"), pytest.param(0, id="all", marks=pytest.mark.slow)])
def test_s3_no_field_leads_out(world, share):
    """Path traversal (S3)."""
    before = tree(world.outside)
    for place, field in enumerate(world.fields):
        texts = [*TEXTS.values()][place % SHARE :: SHARE] if share else [*TEXTS.values()]
        for text in texts:
            answer = field.send(world.app, world.aimed(text))
            assert answer.status < 500, (field.label, text, answer)
            sent = world.aimed(text)
            for secret in ("the canary", "root:x:", str(world.place)):
                assert secret in sent or secret.encode() not in answer.body, (field.label, text)
    assert tree(world.outside) == before
    assert {path.name for path in world.place.iterdir()} == {"runs", "outside", "evil.py"}


def test_s9_no_field_is_called(world):
    """SSRF (S9): an address in any of them is asked by nobody, and no file of one is read."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        at = f"127.0.0.1:{listener.getsockname()[1]}"
        for field, text, answer in world.answers(f"http://{at}/x", f"//{at}/x", "file://{outside}/canary", "s3://b/k"):
            assert b"the canary" not in answer.body, (field.label, text)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_s10_no_field_imports(world, monkeypatch):
    """An environment's id or a dotted path that is imported (S10); the modules lie where Python would find them."""
    monkeypatch.chdir(world.place)
    monkeypatch.syspath_prepend(str(world.place))
    for field, text, answer in world.answers("evil:Env", "evil:CartPole-v1", "evil", "evil.Evil", "this:Env"):
        if field.where in IN_SWEEP or (field.where in INSIDE and field.where not in HARMLESS):
            refused = answer.status == 422 or answer.json["ok"] is False
            assert refused, (field.label, text, answer)
    assert not {"evil", "this"} & {*sys.modules}
    assert not (world.place / "imported").exists()


def test_s15_no_field_writes_into_a_log_or_a_header(world):
    """Log and terminal injection (S15)."""
    for field, text, answer in world.answers("\x1b]0;x\x07", "a\r\nX-Injected: 1", "\u202e", "a\nb"):
        assert "x-injected" not in answer.headers, (field.label, text)
        if answer.status >= 400:
            assert answer.json["detail"].isprintable(), (field.label, text)
    assert world.complaints == []
    for file in (world.runs_dir / ".rlstudio").rglob("*"):
        if file.suffix in (".log", ".jsonl", ".json"):
            data = file.read_bytes()
            assert not {0x1B, 0x0D} & {*data}, file
            assert ACT.encode() not in data, file


def test_s16_a_long_text_takes_no_longer_than_it_is_long(world):
    """A megabyte in a place that is looked through for addresses took half an hour: by the steps, not by the clock."""
    from rlstudio.server.api.work.remote import ADDRESS

    assert ADDRESS.search("http://x")
    assert ADDRESS.search("x" * 1_000_000) is None
