"""POST, PATCH and DELETE: what they answer, by ETag and Idempotency-Key, and that they refuse what they must."""

from __future__ import annotations

import json
import time

import pytest

from rlstudio.control.workspace import Workspace
from rlstudio.server.http.app import decisions
from support.api_world import api_over
from support.control_world import S, in_state, request
from support.deadlines import PATIENCE
from support.experiments import tiny_data
from support.http_app import READ, ask
from support.path_vectors import TEXTS
from support.registry_world import write_policy


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with api_over(tmp_path_factory.mktemp("acting") / "runs") as api:
        yield api


@pytest.fixture(scope="module")
def store(api):
    return api.service.acting.store


def experiment(**changes):
    return tiny_data("ppo", train={"epochs": 2}, **changes)


def test_every_route_says_who_may_call_it(api):
    asked = list(decisions(api.app))
    assert len(asked) > 40
    for path, method, decision in asked:
        concrete = path.replace("{name:path}", "x").replace("{", "").replace("}", "")
        answer = ask(api.app, method, concrete, None)
        assert (answer.status == 401) == (type(decision).__name__ == "Authenticated"), (method, path)


def test_who_may_only_read_changes_nothing(api, store):
    run = store.create(request())
    for method, path in (
        ("POST", f"/runs/{run.id}/cancel"),
        ("DELETE", f"/runs/{run.id}"),
        ("PATCH", f"/runs/{run.id}"),
    ):
        assert api.ask(method, path, {}, READ).status == 403
    assert store.get(run.id).state == S.QUEUED


def test_what_is_wrong_names_no_path_of_the_server(tmp_path, monkeypatch):
    """Where an environment refuses its arguments, its file was named: where the server is installed."""
    monkeypatch.chdir(tmp_path)  # files below the working directory are named from there
    env = {"id": "CartPole-v1", "kwargs": {"entry_point": "os:system"}}
    with api_over(tmp_path / "runs") as api:
        for more in ({"validate_only": True}, {}):
            answer = api.post("/experiments", {"config": experiment(env=env), **more})
            (problem,) = answer.json["problems"]
            assert "env.kwargs" in problem["field"] + problem["message"]
            assert ".../registration.py" in problem["message"]
            assert b"site-packages/" not in answer.body


@pytest.mark.parametrize("uri", ["evil.example:5000", "databricks", "store", "sqlite:///x.db"])
def test_s9_no_tracking_server_is_named_over_http(api, uri):
    """Without a scheme it passed for a name."""
    sinks = {"sinks": [{"kind": "mlflow", "uri": uri}]}
    answer = api.post("/experiments", {"config": experiment(tracking=sinks), "validate_only": True})
    assert [problem["field"] for problem in answer.json["problems"]] == ["tracking.sinks[0].uri"]
    assert "MLFLOW_TRACKING_URI" in answer.json["problems"][0]["message"]


def test_validate_only_says_what_is_wrong_by_field(api):
    good = api.post("/experiments", {"config": experiment(), "validate_only": True})
    assert good.status == 200
    assert good.json["ok"]
    assert good.json["config"]["train"]["epochs"] == 2
    bad = api.post(
        "/experiments",
        {"yaml": "env: {id: CartPole-v1}\npolicy: {algo: ppo}\ntrain:\n  clipp: 3\n", "validate_only": True},
    )
    assert bad.status == 200
    assert bad.json["problems"] == [
        {"field": "train.clipp", "message": "unknown key; did you mean clip?", "line": 4, "column": 3}
    ]
    twice = api.post("/experiments", {"yaml": "name: a\nname: b\n", "validate_only": True}).json["problems"]
    assert twice == [{"field": "", "message": "duplicate key 'name'; first given on line 1", "line": 2, "column": 1}]
    launched = api.post("/experiments", {"config": experiment(nonsense=1)})
    assert launched.status == 422
    assert (launched.json["problems"][0]["field"], launched.json["error"]) == ("nonsense", "ConfigError")
    for body in (
        {},
        {"config": {}, "preset": "ppo/cartpole"},
        {"preset": "../../etc/passwd"},
        {"config": {}, "seeds": 0},
    ):
        assert 400 <= api.post("/experiments", body).status < 500


def test_an_experiment_names_no_place_and_no_code(api):
    """No address, no path of this machine, no environment outside the catalog, no module."""
    hostile = {
        "tracking": [
            {"sinks": [{"kind": "mlflow", "uri": "http://169.254.169.254/"}]},
            {"sinks": [{"kind": "mlflow", "uri": "file:///etc"}]},
        ],
        "env": [
            {"id": "os:system"},
            {"id": "NoSuchEnv-v0"},
            {"id": "CartPole-v1", "kwargs": {"xml_file": "/etc/passwd"}},
            {"id": "CartPole-v1", "kwargs": {"deep": [{"file": "a/b"}]}},
            {"id": "CartPole-v1", "kwargs": {"file": "..\\x"}},
        ],
        "resources": [{"backend": "ray", "address": "10.0.0.1:6379"}],
        "imports": [["os"]],
        "name": ["../x"],
    }
    for section, values in hostile.items():
        for value in values:
            answer = api.post("/experiments", {"config": experiment(**{section: value}), "validate_only": True})
            assert answer.status == 200
            assert not answer.json["ok"], (section, value)
            assert answer.json["problems"][0]["field"].startswith(section), answer.json
    assert api.service.looking.count() == len(api.service.looking.entries())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("env.id", "NoSuchEnv-v0"),
        ("env.id", "os:PathLike"),
        ("env", {"id": "os:PathLike"}),
        ("env.kwargs.file", "a/b"),
        ("env.kwargs", {"xml_file": "/etc/passwd"}),
        ("resources", {"backend": "ray", "address": "10.0.0.1:6379"}),
    ],
)
def test_what_a_sweep_changes_names_no_place_either(api, field, value):
    """In all of its trials, in some of them, or in none that is left."""
    harmless = {"train.lr": {"choices": [0.1]}}
    change = f"{field}={json.dumps(value)}"
    for sweep in (
        {"space": {field: {"choices": [value]}}},
        {"space": harmless, "overrides": [change]},
        {"space": harmless, "overrides": [change, f"{field}=null"]},
    ):
        whole = {"name": "s", "trials": 1, "experiment": experiment(), **sweep}
        answer = api.post("/sweeps", {"config": whole, "validate_only": True})
        assert answer.status == 200
        assert not answer.json["ok"], sweep
        reasons = "over HTTP", "catalog", "not allowed when the server was started"
        assert any(reason in str(answer.json["problems"]) for reason in reasons), answer.json


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_no_field_of_a_body_leads_out(api, store, text):
    run = store.create(request(name="target"))
    given = text.replace("{id}", run.id).replace("{victim}", "x").replace("{outside}", "/tmp/outside")
    given = given.encode("utf-8", "replace").decode()
    bodies = {
        "/models/m/promote": {"what": given},
        "/queue/order": {"ids": [given]},
        f"/runs/{run.id}/fork": {"at": given},
        f"/runs/{run.id}/export": {"checkpoint": given},
        "/sweeps": {"preset": given, "validate_only": True},
        "/experiments": {"preset": given, "validate_only": True},
    }
    for path, body in bodies.items():
        answer = api.post(path, body)
        legal = path == "/queue/order" and answer.status == 200
        assert legal or answer.status in (404, 409, 422), (path, answer)
        assert b"root:" not in answer.body


def test_a_launch_with_a_key_is_made_once(api):
    body = {"config": experiment(name="once"), "seeds": 2}
    first, again = (api.post("/experiments", body, Idempotency_Key="launch-1") for _ in range(2))
    assert first.status == again.status == 201
    ids = [run["id"] for run in first.json["runs"]]
    assert ids == [run["id"] for run in again.json["runs"]]
    assert first.headers["location"].endswith(ids[0])
    assert {run["seed"] for run in first.json["runs"]} == {0, 1} or len(ids) == 2
    assert api.get("/runs?name=once")["total"] == 2


def test_a_change_is_refused_where_the_run_is_another_by_now(api, store):
    run = store.create(request(name="etag"))
    before = api.get(f"/runs/{run.id}")["etag"]
    changed = api.ask("PATCH", f"/runs/{run.id}", {"note": "one", "tags": ["a"], "priority": 3}, If_Match=f'"{before}"')
    assert changed.status == 200
    assert (changed.json["note"], changed.json["tags"], changed.json["priority"]) == ("one", ["a"], 3)
    assert changed.json["etag"] != before
    for method, path, body in (("PATCH", "", {"note": "two"}), ("POST", "/cancel", b""), ("DELETE", "", b"")):
        refused = api.ask(method, f"/runs/{run.id}{path}", body, If_Match=f'"{before}"')
        assert refused.status == 412, (method, path)
    assert store.get(run.id).note == "one"
    assert api.post(f"/runs/{run.id}/cancel", If_Match=changed.json["etag"]).status == 200


def test_asking_again_with_the_key_is_no_conflict(api, store):
    run = store.create(request())
    assert api.post(f"/runs/{run.id}/pause").json["paused"]
    assert api.post(f"/runs/{run.id}/cancel").json["state"] == "CANCELLED"
    assert api.post(f"/runs/{run.id}/cancel").status == 409
    assert api.post(f"/runs/{run.id}/cancel", Idempotency_Key="again").json["state"] == "CANCELLED"
    assert api.post(f"/runs/{run.id}/stop").status == 409
    assert api.ask("DELETE", f"/runs/{run.id}").status == 204
    assert api.ask("GET", f"/runs/{run.id}").status == 404


def test_where_a_run_was_started_stays_with_the_server(api, store):
    words = ["/usr/bin/rlctl", "launch", "-f", "/home/ada/work/x.yaml", "env.id=ALE/Pong-v5"]
    code = {"rlstudio": {"root": "/home/ada/rlstudio"}}
    run = store.create(request(lineage={"directory": "/home/ada/work", "command": words, "code": code}))
    store.annotate(run.id, note="as in /data/old/run")  # what its user wrote stays as it is
    shown = api.get(f"/runs/{run.id}")
    assert shown["lineage"]["command"] == [".../rlctl", "launch", "-f", ".../x.yaml", "env.id=ALE/Pong-v5"]
    assert shown["note"] == "as in /data/old/run"
    assert "/home/ada" not in json.dumps(shown)


def test_the_queue_takes_the_order_that_is_asked_for(api, store):
    # Larger than any machine: a worker that another test started must not take them.
    ids = [store.create(request(name="ordered", cpus=100_000)).id for _ in range(3)]
    wanted = [ids[2], ids[0], ids[1]]
    for _ in range(2):
        before = {row["id"] for row in api.get("/queue")["queued"]}  # others may come meanwhile
        rows = api.post("/queue/order", {"ids": wanted}).json["queued"]
        assert [row["id"] for row in rows if row["id"] in before][:3] == wanted
        assert [row["position"] for row in rows] == list(range(1, len(rows) + 1))
    ended = in_state(store, S.COMPLETED)
    assert api.post("/queue/order", {"ids": [ended.id]}).status == 409


def accepted(api, path, **asked):
    """One of the two before it may not be quite gone yet."""
    until = time.monotonic() + PATIENCE
    while (answer := api.post(path, **asked)).status == 503:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert answer.status == 202, answer
    return answer.json["id"]


def ended(api, operation):
    until = time.monotonic() + PATIENCE
    while (document := api.get(f"/operations/{operation}"))["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.1)
    return document


def test_a_promotion_is_judged_in_a_process_of_its_own(api, tmp_path):
    from rlstudio.control.registry.releases import Releases

    releases = Releases(api.service.acting)
    releases.register_bundle("toy", write_policy(tmp_path / "good", 1.0).path)
    releases.register_bundle("toy", write_policy(tmp_path / "bad", 0.0).path)
    asked = {"what": "toy:1", "to": "production", "settings": {"budget": 20}}
    begun, again = (api.post("/models/toy/promote", asked, Idempotency_Key="p") for _ in range(2))
    assert begun.status == again.status == 202
    assert begun.json["id"] == again.json["id"]
    done = ended(api, begun.json["id"])
    assert done["state"] == "done", done
    assert done["result"]["stage"] == "production"
    refused = ended(api, api.post("/models/toy/promote", {**asked, "what": "toy:2"}).json["id"])
    assert (refused["state"], refused["error"]["error"]) == ("failed", "GateFailed")
    assert refused["result"]["verdict"]["promote"] is False
    assert api.get("/models/toy")["production"] == 1
    by_etag = {"body": {**asked, "what": "toy:2", "to": "staging"}, "Idempotency_Key": "by-etag"}
    assert api.post("/models/toy/promote", If_Match='"0-1"', **by_etag).status == 412
    assert api.post("/models/new/promote", {"what": "new:1"}, If_Match='"0-1"').status == 412
    seen = f'"{api.get("/models/toy")["etag"]}"'
    staged = accepted(api, "/models/toy/promote", If_Match=seen, **by_etag)
    assert ended(api, staged)["result"]["stage"] == "staging"
    assert api.get("/models/toy")["etag"] not in seen
    assert accepted(api, "/models/toy/promote", If_Match=seen, **by_etag) == staged
    assert api.post("/models/toy/promote", asked, If_Match=seen).status == 412
    assert api.post("/models/toy/rollback").status == 409
    assert api.post("/models/other/promote", asked).status == 422
    assert api.post("/models/toy/promote", {**asked, "settings": {"nonsense": 1}}).status == 422
    bundle = api.ask("GET", "/models/toy/versions/1/bundle")
    assert bundle.headers["content-disposition"] == 'attachment; filename="toy-1.tar"'
    assert len(bundle.body) > 0
    assert len(bundle.body) % 512 == 0
    assert {item["kind"] for item in api.get("/models/toy/audit")["items"]} >= {"promote"}


def test_prometheus_reads_the_counts(api, store):
    answer = api.ask("GET", "/metrics")
    assert answer.status == 200
    assert 'rlstudio_runs{state="QUEUED"}' in answer.body.decode()


def test_a_workspace_that_is_made_later_is_seen(tmp_path):
    with api_over(tmp_path / "runs") as api:
        assert api.get("/runs")["total"] == 0
        Workspace(tmp_path / "runs").store.create(request())
        assert api.get("/runs")["total"] == 1
        assert json.dumps(api.get("/queue")["queued"])
