"""Experiments that take long to try take neither health nor the list of runs away."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from rlstudio.server.api.work import workbench
from rlstudio.server.api.work.workbench import Workbench
from support.deadlines import PATIENCE
from support.http_server import Client, one_token, running
from support.studio import studio

BODY = '{"preset": "ppo/cartpole", "validate_only": true}'


@pytest.fixture
def hanging(monkeypatch):
    """The workbench hangs over each experiment, until this is set."""
    over = threading.Event()

    def exchange(bench, order):
        assert over.wait(PATIENCE)
        return b'{"result": {"ok": true}}\n'

    monkeypatch.setattr(Workbench, "_exchange", exchange)
    yield over
    over.set()


def test_who_looks_is_answered_while_as_many_as_may_wait_do(tmp_path, hanging):
    answers, are_refused = [], threading.Semaphore(0)

    def launch(place):
        client = Client(place)
        answers.append(client.ask("POST", "/experiments", BODY, Content_Type="application/json"))
        client.close()
        are_refused.release()

    with running(partial(studio, tmp_path / "runs", access=one_token())) as place:
        callers = [threading.Thread(target=launch, args=(place,)) for _ in range(workbench.MOST_WAITING + 30)]
        for caller in callers:
            caller.start()
        try:
            for _ in range(30):
                assert are_refused.acquire(timeout=PATIENCE)
            assert {(status, document["detail"]) for status, document in answers} == {
                (503, "24 experiments are being tried already; ask again in a moment")
            }
            client = Client(place)
            for path in ("/api/v1/health", "/api/v1/runs", "/api/v1/metrics"):
                assert client.ask("GET", path)[0] == 200
            client.close()
        finally:
            hanging.set()
            for caller in callers:
                caller.join()
    assert sorted(status for status, _ in answers) == [200] * 24 + [503] * 30
