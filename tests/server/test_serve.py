"""`rlctl serve` as people start it: real processes, an address that signs in, runs that go on without it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from rlstudio.control.workspace import Workspace
from rlstudio.core.run_state import RunState
from rlstudio.server.http.wire.running import Server
from support.cli_scenario import rlctl_in_process
from support.deadlines import PATIENCE
from support.rlctl_process import LONG, end_all, rlctl, start, wait_for


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    end_all()


class Served:
    """A started server; `ask` speaks with the token of its file."""

    def __init__(self, place: Path):
        self.process = start(place, "serve", "--port", 0, "--token-file", "token")
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            if "Ctrl-C" in line:  # the last one: what this has taken beyond a line, `communicate` would never see
                break
        self.login = self.said[0].split(" at ")[1].split()[0]
        self.url = self.login.partition("/login")[0]
        self.token = (place / "token").read_text().strip()

    def ask(self, method, path, document=None, **headers):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"} | headers
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read() or b"null")


@pytest.mark.real_process
def test_runs_go_on_when_the_server_is_killed_and_are_there_again(tmp_path):
    first = Served(tmp_path)
    launched = first.ask("POST", "/experiments", {"yaml": LONG}, **{"Idempotency-Key": "one"})
    assert launched[0] == 201
    run_id = launched[1]["run"]["id"]
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert first.token not in Path(f"/proc/{first.process.pid}/cmdline").read_text()
    workspace = Workspace(tmp_path / "runs")
    wait_for(lambda: workspace.find(run_id).status.state == RunState.RUNNING)
    pid = workspace.find(run_id).status.pid
    first.process.send_signal(signal.SIGKILL)
    first.process.communicate()
    os.kill(pid, 0)

    again = Served(tmp_path)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        again.ask("GET", "/api/v1/me", Authorization=f"Bearer {first.token}")
    repeated = again.ask("POST", "/experiments", {"yaml": LONG}, **{"Idempotency-Key": "one"})
    assert repeated[1]["run"]["id"] == run_id  # the caller has the same name
    assert again.ask("GET", f"/runs/{run_id}")[1]["state"] == "RUNNING"
    os.kill(pid, 0)
    assert len(workspace.entries()) == 1
    rlctl(tmp_path, "stop", run_id)
    again.process.send_signal(signal.SIGINT)
    out, err = again.process.communicate(timeout=PATIENCE)
    assert (again.process.returncode, err) == (0, "")
    said = "".join(again.said) + out
    assert "runs go on" in said
    assert again.token not in said


@pytest.mark.real_process
def test_the_address_signs_a_browser_in_once(tmp_path):
    served = Served(tmp_path)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with contextlib.suppress(urllib.error.HTTPError):  # 503 where the page itself is not built
        browser.open(served.login, timeout=PATIENCE).close()
    with browser.open(served.url + "/api/v1/me", timeout=PATIENCE) as answer:
        assert json.loads(answer.read()) == {"name": "operator", "role": "act"}
    other = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with pytest.raises(urllib.error.HTTPError, match="401"):
        other.open(served.login, timeout=PATIENCE)


def test_tokens_are_made_listed_and_revoked(tmp_path, capsys, monkeypatch):
    """As the page types them."""
    monkeypatch.chdir(tmp_path)
    rlctl = rlctl_in_process(capsys)
    assert rlctl("token", "ls").out == "no token; make one with: rlctl token add NAME\n"
    done = rlctl("token", "add", "laptop", "--role", "act", "--token-file", "laptop.token")
    assert (done.code, done.out) == (0, "token laptop with the role act: in laptop.token\n")
    secret = (tmp_path / "laptop.token").read_text().strip()
    assert rlctl("token", "add", "grafana", "--days", 90, "--json").document["secret"].startswith("rls_")
    listed = rlctl("token", "ls", "--json")
    assert [(row["name"], row["state"]) for row in listed.document["items"]] == [
        ("laptop", "active"),
        ("grafana", "active"),
    ]
    assert secret not in listed.out + rlctl("token", "ls").out
    assert rlctl("token", "revoke", "laptop").out == "token laptop: revoked\n"
    again = rlctl("token", "revoke", "laptop")
    assert (again.code, again.err) == (2, "rlctl: name: no active token 'laptop'\n")
    lines = [json.loads(line) for line in (tmp_path / "runs/.rlstudio/server/audit.jsonl").read_text().splitlines()]
    assert [(line["who"], line["method"], line["path"]) for line in lines[:1]] == [("rlctl", "POST", "/tokens/laptop")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--tls-key", "key.pem"), "--tls-key: needs --tls-cert beside it"),
        (("--tls-cert", "none.pem"), "--tls-cert none.pem: cannot be used"),
        (("--host", "203.0.113.7"), "--host 203.0.113.7 --port 8710: "),
        (("--import", "no_such_module"), "no_such_module"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, capsys, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    done = rlctl_in_process(capsys)("serve", *options)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False), ("localhost", False)])
def test_plain_http_on_a_network_is_warned_of(tmp_path, capsys, monkeypatch, host, warned):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Server, "serve_until_stopped", lambda self, ready: ready())
    done = rlctl_in_process(capsys)("serve", "--host", host, "--port", 0)
    assert done.code == 0
    assert ("over plain HTTP, tokens can be read on the way; give --tls-cert" in done.err) == warned


def test_a_package_that_is_missing_is_one_line_with_its_range(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    for command in (("serve",), ("serve-policy", "bundle")):
        done = rlctl_in_process(capsys)(*command)
        assert done.code == 2
        assert done.err.startswith(f"rlctl: {command[0]}: the server needs uvicorn; run `")
        assert done.err.count("\n") == 1
