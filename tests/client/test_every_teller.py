"""One story, told by everything that people and programs speak to: a run is launched under a key, trained, trained on,
forked, labelled, compared, exported, and released. Each teller ends with the same facts, bit for bit."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from urllib.parse import quote

import pytest

from rlstudio import orchestrator
from rlstudio.client import Client
from rlstudio.control.registry.releases import Releases
from rlstudio.control.workspace import Workspace
from rlstudio.delivery.bundle import open_bundle
from rlstudio.delivery.export import export_run
from support.cli_scenario import rlctl_in_process
from support.deadlines import PATIENCE
from support.experiments import tiny_data, tiny_yaml
from support.http_server import TOKEN, one_token, running
from support.http_server import Client as Connection
from support.studio import studio

NAME, CHILD, MODEL, SEED = "story", "child", "toy", 5
TINY, TEXT = tiny_data("ppo", train={"epochs": 1}), tiny_yaml("ppo", train={"epochs": 1})
LONGER, EVEN_LONGER = "train.epochs=2", "train.epochs=3"
WHY = "the first of all"
KEPT = ("name", "seed", "state", "epoch", "env_steps", "config_hash", "state_hash", "eval_return", "tags", "note")
OVER = ("COMPLETED", "FAILED", "INTERRUPTED", "CANCELLED")


class InPython:
    def __init__(self, place, opened, capsys):
        self.at = {"runs_dir": place / "runs"}
        self.place = place

    def launch(self):
        run = orchestrator.launch(TINY, seed=SEED, name=NAME, key="k", **self.at)
        run.wait(PATIENCE, progress=False)
        return run.id

    def resume(self, run_id):
        orchestrator.resume(run_id, LONGER, progress=False, **self.at)

    def fork(self):
        orchestrator.fork(NAME, EVEN_LONGER, name=CHILD, **self.at).wait(PATIENCE, progress=False)

    def label(self):
        orchestrator.get(NAME, **self.at).tag("paper").write_note("as it was")

    def compare(self):
        return orchestrator.compare(NAME, CHILD, **self.at).to_json()

    def export(self):
        return export_run(Workspace(self.at["runs_dir"]).folder_to_load(CHILD), self.place / "bundle", formats=())

    def promote(self):
        release = orchestrator.promote(CHILD, MODEL, to="production", force=WHY, **self.at)
        return release.name, str(release.stage)

    def shown(self, name):
        run = orchestrator.get(name, **self.at)
        return {**vars(run.status), "tags": [*run.tags], "note": run.note}


class ByCommands:
    """`rlctl`, with `self.at` behind every command."""

    def __init__(self, place, opened, capsys):
        self.place, self.at = place, ("--runs-dir", place / "runs")
        self.rlctl = rlctl_in_process(capsys)
        self.file = place / "tiny.yaml"
        self.file.write_text(TEXT)

    def ask(self, *words):
        done = self.rlctl(*words, *self.at)
        assert done.code == 0, done.err
        return done

    def wait(self, name):
        until = time.monotonic() + PATIENCE
        while self.shown(name)["state"] not in OVER:
            assert time.monotonic() < until
            time.sleep(0.2)

    def launch(self):
        words = ("launch", "-f", self.file, "--seed", SEED, "--name", NAME, "--key", "k", "--detach", "--quiet")
        run_id = self.ask(*words).out.strip()
        self.wait(NAME)
        return run_id

    def resume(self, run_id):
        self.ask("resume", run_id, LONGER)
        self.wait(NAME)

    def fork(self):
        self.ask("fork", NAME, EVEN_LONGER, "--name", CHILD)
        self.wait(CHILD)

    def label(self):
        self.ask("tag", "paper", NAME)
        self.ask("note", NAME, "as it was")

    def compare(self):
        return self.ask("compare", NAME, CHILD, "--json").document

    def export(self):
        self.ask("export", CHILD, "-o", self.place / "bundle", "--format", "bundle")
        return open_bundle(self.place / "bundle")

    def promote(self):
        words = ("promote", CHILD, "--model", MODEL, "--to", "production", "--force", WHY, "--json")
        version = self.ask(*words).document
        return version["name"], version["stage"]

    def shown(self, name):
        return self.ask("show", name, "--json").document


class ByCommandsOfAServer(ByCommands):
    def __init__(self, place, opened, capsys):
        super().__init__(place, opened, capsys)
        file = place / "token"
        file.write_text(TOKEN)
        file.chmod(0o600)
        self.at = ("--server", f"http://{served(place, opened).host}", "--token-file", file)


def served(place, opened):
    return opened.enter_context(running(partial(studio, place / "runs", access=one_token())))


class ByClient:
    def __init__(self, place, opened, capsys):
        self.place, file = place, place / "token"
        file.write_text(TOKEN)
        file.chmod(0o600)
        url = f"http://{served(place, opened).host}"
        self.client = opened.enter_context(Client(url, token_file=file))

    def launch(self):
        run = self.client.launch(TINY, seed=SEED, name=NAME, key="k")
        self.client.runs.wait(run["id"], PATIENCE)
        return run["id"]

    def resume(self, run_id):
        self.client.runs.wait(self.client.runs.resume(run_id, [LONGER])["id"], PATIENCE)

    def fork(self):
        self.client.runs.wait(self.client.runs.fork(NAME, [EVEN_LONGER], name=CHILD)["id"], PATIENCE)

    def label(self):
        self.client.runs.change(NAME, tags=["paper"], note="as it was")

    def compare(self):
        return self.client.compare([NAME, CHILD])

    def export(self):
        done = self.client.finished(self.client.runs.export(CHILD, formats=[]), PATIENCE)
        return self.unpacked(self.client.download(done["download"], self.place / "bundle.tar"))

    def unpacked(self, archive):
        subprocess.run(["tar", "-xf", archive, "-C", self.place], check=True)
        return open_bundle(next(path for path in self.place.iterdir() if (path / "spec.json").exists()))

    def promote(self):
        operation = self.client.models.promote(MODEL, CHILD, to="production", force=WHY)
        version = self.client.finished(operation, PATIENCE)
        return version["name"], version["stage"]

    def shown(self, name):
        return self.client.runs.get(name)


class OverHTTP(ByClient):
    """Requests as any program can write them."""

    def __init__(self, place, opened, capsys):
        self.place, self.connection = place, Connection(served(place, opened))
        opened.callback(self.connection.close)

    def ask(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body)
        status, document = self.connection.ask(method, path, data, Content_Type="application/json", **headers)
        assert status < HTTPStatus.BAD_REQUEST, document
        return document

    def until(self, path, *states):
        until = time.monotonic() + PATIENCE
        while (document := self.ask("GET", path))["state"] not in states:
            assert time.monotonic() < until
            time.sleep(0.2)
        return document

    def launch(self):
        body = {"config": TINY, "seed": SEED, "name": NAME}
        run_id = self.ask("POST", "/experiments", body, Idempotency_Key="k")["run"]["id"]
        self.until(f"/runs/{run_id}", *OVER)
        return run_id

    def resume(self, run_id):
        self.ask("POST", f"/api/v1/runs/{run_id}/resume", {"overrides": [LONGER]})
        self.until(f"/runs/{run_id}", *OVER)

    def fork(self):
        self.ask("POST", f"/api/v1/runs/{NAME}/fork", {"overrides": [EVEN_LONGER], "name": CHILD})
        self.until(f"/runs/{CHILD}", *OVER)

    def label(self):
        self.ask("PATCH", f"/api/v1/runs/{NAME}", {"tags": ["paper"], "note": "as it was"})

    def compare(self):
        return self.ask("GET", f"/api/v1/compare?runs={NAME},{quote(CHILD)}")

    def ended(self, operation):
        done = self.until(f"/api/v1/operations/{operation['id']}", "done", "failed")
        assert done["state"] == "done", done
        return done

    def export(self):
        done = self.ended(self.ask("POST", f"/api/v1/runs/{CHILD}/export", {"formats": []}))
        self.connection.connection.request("GET", done["download"], headers=self.connection.headers)
        archive = self.place / "bundle.tar"
        archive.write_bytes(self.connection.connection.getresponse().read())
        return self.unpacked(archive)

    def promote(self):
        body = {"what": CHILD, "to": "production", "force": WHY}
        version = self.ended(self.ask("POST", f"/api/v1/models/{MODEL}/promote", body))["result"]
        return version["name"], version["stage"]

    def shown(self, name):
        return self.ask("GET", f"/runs/{name}")


def told(teller, place):
    """The story, and what is so at its end."""
    first, again = teller.launch(), teller.launch()
    assert first == again
    teller.resume(first)
    teller.fork()
    teller.label()
    groups = [(group["name"], group["n"], group["iqm"]["value"]) for group in teller.compare()["groups"]]
    bundle = teller.export()
    weights = bundle.files["weights.safetensors"]
    released = teller.promote()
    shown = {name: teller.shown(name) for name in (NAME, CHILD)}
    runs = {name: {fact: document[fact] for fact in KEPT} for name, document in shown.items()}
    workspace = Workspace(place / "runs")
    decided = [(one.kind, one.version, one.reason) for one in Releases(workspace).history(MODEL)]
    states = {
        run.name: [(event.state, event.reason) for event in workspace.records.events(run.id)]
        for run in workspace.store.runs()
    }
    return {"runs": runs, "groups": groups, "weights": weights, "released": released, "decided": decided}, states


@pytest.fixture(scope="module")
def in_python(tmp_path_factory):
    place = tmp_path_factory.mktemp("python")
    return told(InPython(place, None, None), place)


@pytest.mark.real_process
@pytest.mark.parametrize(
    "teller",
    # The commands of a server speak through the client.
    [ByCommands, ByCommandsOfAServer, pytest.param(ByClient, marks=pytest.mark.slow), OverHTTP],
)
def test_the_story_ends_alike_whoever_tells_it(in_python, tmp_path, capsys, monkeypatch, teller):
    monkeypatch.delenv("RLSTUDIO_TOKEN", raising=False)
    facts, states = in_python
    assert facts["runs"][NAME]["epoch"] == 2
    assert facts["runs"][CHILD]["epoch"] == 3
    with ExitStack() as opened:
        mine, my_states = told(teller(tmp_path, opened, capsys), tmp_path)
    assert mine == facts
    assert {name: moves[-1] for name, moves in my_states.items()} == {name: moves[-1] for name, moves in states.items()}
