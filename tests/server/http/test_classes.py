"""Classes of bugs that other services had, each over the whole of what `rlctl serve` answers."""

from __future__ import annotations

import json
import re

import pytest

from rlstudio.server.http.app import decisions
from rlstudio.server.http.callers import Public
from support.http_app import ACT, HOST, ask, two_tokens
from support.studio import studio

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
PUBLIC_ROUTES = {
    ("GET", "/api/v1/health"),
    ("GET", "/healthz"),
    ("GET", "/login"),
    ("GET", "/login.css"),
    ("POST", "/login"),
    ("POST", "/logout"),
}
"""All that answers without a token."""


@pytest.fixture(scope="module")
def complaints():
    return []


@pytest.fixture(scope="module")
def app(tmp_path_factory, complaints):
    runs_dir = tmp_path_factory.mktemp("classes") / "runs"
    app = studio(runs_dir, access=two_tokens(), hosts={HOST}, complain=complaints.append)
    yield app
    app.state.service.close()


def test_s6_nothing_answers_without_a_token(app):
    """Unauthenticated job submission (S6)."""
    paths = {path for path, _, _ in decisions(app)} | {"/docs", "/redoc", "/openapi.json", "/", "/static/x", "/metrics"}
    assert len(paths) > 30
    asked = 0
    for path in sorted(paths):
        target = re.sub(r"\{[^}]*\}", "x", path)
        for method in METHODS:
            if (method, path) not in PUBLIC_ROUTES:
                for token, more in ((None, ""), ("wrong", ""), (None, f"?token={ACT}&access_token={ACT}")):
                    assert ask(app, method, target + more, token).status == 401, (method, path)
                    asked += 1
    print(f"{asked} requests without a token")


def test_s19_no_exemption_is_forgotten_or_unused(app):
    """Fail-open by a stale list (S19): what is public is exactly what is meant to be, and is there."""
    public = {(method, path) for path, method, decision in decisions(app) if isinstance(decision, Public)}
    assert public == PUBLIC_ROUTES


def test_s9_no_field_takes_an_address(app):
    """SSRF (S9)."""
    document = json.dumps(ask(app, "GET", "/api/v1/openapi.json").json)
    assert '"format": "uri"' not in document
    names = set(re.findall(r'"(?:name|title)": "([^"]+)"', document))
    assert not [name for name in names if re.search(r"\b(url|uri|webhook|callback)\b", name, re.IGNORECASE)]


def test_s14_nothing_is_sniffed_framed_or_run(app):
    """XSS and content sniffing (S14)."""
    script = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    for target in (
        f"/api/v1/runs/{script}",
        f"/{script}",
        f"/api/v1/runs?q={script}",
        f"/login?token={script}",
        "/login",
        "/",
    ):
        answer = ask(app, "GET", target)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "unsafe" not in answer.headers["content-security-policy"]
        if answer.headers["content-type"].startswith("text/html"):
            assert not re.search(rb"<script(?![^>]*\ssrc=\"\.?/)", answer.body)  # nothing inline, none from elsewhere
            assert b"alert(1)" not in answer.body
        else:
            assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_s15_control_characters_and_secrets_reach_no_log(app, complaints, tmp_path_factory):
    """Log and terminal injection (S15)."""
    for target in ("/api/v1/runs/%1b]0;x%07", "/api/v1/runs/a%0d%0aX-Injected:%201", "/api/v1/runs/%E2%80%AE"):
        answer = ask(app, "GET", target)
        assert 400 <= answer.status < 500
        assert "x-injected" not in answer.headers
        assert answer.json["detail"].isprintable()
    ask(app, "POST", f"/api/v1/runs/x/stop?token={ACT}")
    state_dir = app.state.service.looking.state_dir
    kept = [file.read_bytes() for file in state_dir.rglob("*") if file.is_file()]
    assert kept
    assert not [data for data in kept if ACT.encode() in data or b"\x1b" in data]
    assert complaints == []


def test_what_is_refused_is_counted_and_not_written(app):
    """Nobody without a token can fill the disk; who watches sees that somebody tries."""

    def refused():
        text = ask(app, "GET", "/api/v1/metrics").body.decode()
        return float(next(line.split()[1] for line in text.splitlines() if 'route="other",status="401"' in line))

    state_dir = app.state.service.looking.state_dir
    ask(app, "POST", "/experiments", None)
    before, sizes = refused(), {file: file.stat().st_size for file in state_dir.rglob("*") if file.is_file()}
    for _ in range(10):
        ask(app, "POST", "/experiments", "wrong")
    assert refused() == before + 10
    assert sizes == {file: file.stat().st_size for file in state_dir.rglob("*") if file.is_file()}
    assert "process_resident_memory_bytes" in ask(app, "GET", "/api/v1/metrics").body.decode()


def test_the_document_says_what_the_guard_adds(app):
    document = ask(app, "GET", "/api/v1/openapi.json").json
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            is_public = (method.upper(), path) in PUBLIC_ROUTES
            assert operation["security"] == ([] if is_public else [{"token": []}])
            assert list(operation["responses"]["4XX"]["content"]) == ["application/problem+json"]
