"""A policy over HTTP: the agent's actions, one line for each mistake, nothing that is too large, slow or strange."""

from __future__ import annotations

import json
import stat
import threading
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstudio.core.errors import UserError
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete
from rlstudio.server.http.access import Access
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.token_file import write_token
from rlstudio.server.http.wire.running import ListenPlace, is_loopback
from rlstudio.server.policy.app import policy_app
from rlstudio.server.policy.requests import BadInput, parse_request
from rlstudio.server.serve import serve_policy
from support.export_toys import ship, trained
from support.http_server import TOKEN, one_token
from support.http_server import Client as PlainClient
from support.http_server import running as served

GRU = "ppo-MaskedParts-memory=gru-memory_size=8"


def running(bundle, access=None, max_batch=256, **options):
    return served(partial(policy_app, bundle, access=access or one_token(), max_batch=max_batch), **options)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Without a graph: an ONNX export takes seconds, and what is asked here is the server."""
    return ship("ppo-Numbers", tmp_path_factory.mktemp("serve") / "toy", ("bundle",))


@pytest.fixture(scope="module")
def gru(tmp_path_factory):
    return ship(GRU, tmp_path_factory.mktemp("serve") / "gru", ("bundle",))


@pytest.fixture(scope="module")
def server(toy):
    with running(toy, max_batch=16) as server:
        yield server


class Client(PlainClient):
    def act(self, observations, **more):
        body = json.dumps({"observations": observations, **more})
        return self.ask("POST", "/act", body, Content_Type="application/json")


@pytest.fixture
def client(server):
    client = Client(server)
    yield client
    client.close()


def test_it_gives_the_agents_actions(client):
    agent, _ = trained("ppo-Numbers")
    rows = np.random.default_rng(0).uniform(-1, 1, (16, 3)).astype(np.float32)
    assert client.act(rows.tolist()) == (200, {"actions": agent.act(rows).tolist()})
    assert client.act(rows[0].tolist()) == (200, {"actions": int(agent.act(rows[0]))})  # the same connection


def test_what_is_remembered_travels_with_the_client(gru):
    agent, _ = trained(GRU)
    generator = np.random.default_rng(0)
    with running(gru) as server:
        client, episode, carry = Client(server), agent.episode(), None
        for _ in range(4):
            numbers = generator.uniform(-1, 1, 3).astype(np.float32)
            status, answer = client.act({"action_mask": [1] * 5, "actions": numbers.tolist()}, carry=carry)
            assert status == 200
            carry = answer["carry"]
            expected = episode.act({"action_mask": np.ones(5, np.uint8), "actions": numbers})
            assert answer["actions"] == expected.tolist()
        assert np.shape(carry["h"]) == (2, 8)
        assert client.act({"action_mask": [1] * 5, "actions": [0, 0, 0]}, carry={"h": [1]})[0] == 422
        client.close()


def test_health_spec_and_metrics(server, client, toy):
    assert Client(server, token=None).ask("GET", "/health") == (200, {"status": "ok"})
    status, spec = client.ask("GET", "/spec")
    assert (status, spec) == (200, json.loads((toy.path / "spec.json").read_text()))
    client.act([[0, 0, 0]] * 3)
    status, text = client.ask("GET", "/metrics")
    assert status == 200
    assert 'rlstudio_policy_latency_seconds_bucket{le="+Inf",policy="toy"}' in text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    buckets = [float(value) for name, value in lines.items() if "_bucket" in name]
    assert buckets == sorted(buckets)
    assert float(lines['rlstudio_policy_actions_total{policy="toy"}']) >= 3
    assert float(lines['rlstudio_policy_requests_total{policy="toy",route="/act",status="200"}']) >= 1


@pytest.mark.parametrize("path", ["/act", "/spec", "/metrics", "/nothing"])
@pytest.mark.parametrize("token", [None, "", "x" * 64, TOKEN[:-1], "ä" * 3])
def test_without_the_token_nothing_but_health(server, path, token):
    client = Client(server, token=None)
    headers = {} if token is None else {"Authorization": f"Bearer {token}".encode()}
    status, answer = client.ask("POST" if path == "/act" else "GET", path, None, **headers)
    assert status == 401
    assert TOKEN not in str(answer)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil:80", "", "0.0.0.0"])
def test_another_host_name_is_refused(server, host):
    status, _ = Client(server).ask("GET", "/health", Host=host)
    assert status == 421


def test_localhost_and_named_hosts_are_not(server, toy):
    port = server.address[1]
    assert Client(server).ask("GET", "/health", Host=f"localhost:{port}")[0] == 200
    with running(toy, allowed_hosts=("policy.example",)) as named:
        assert Client(named).ask("GET", "/health", Host="policy.example")[0] == 200


def test_no_other_site_is_allowed(server, client):
    client.connection.request("OPTIONS", "/act", headers={"Origin": "http://evil.example"})
    answer = client.connection.getresponse()
    answer.read()
    assert answer.status == 403
    assert not any(name.lower().startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    ("observations", "said"),
    [
        ([], "observations: is empty"),
        ([[1, 2]], "observations: has shape [1, 2], expected [rows, 3]"),
        ([[[1, 2, 3]]], "observations: has shape [1, 1, 3]"),
        ([[1, 2, 3], [1, 2]], "observations: is not a regular array"),
        (["a", "b", "c"], "observations: must be numbers"),
        ([True, False, True], "observations: must be numbers"),
        ([True, 0.5, 0.5], "observations: must be numbers"),
        ([2**63, 0, 0], "observations: must be numbers of at most 64 bits"),
        ([10**400, 0.5, 0], "observations: must be numbers of at most 64 bits"),
        ([None, 1, 2], "observations: must be numbers"),
        ({"a": 1}, "observations: must be numbers"),
        ([1e39, 0, 0], "observations: must be finite numbers that fit float32"),
        ([[0, 0, 0]] * 17, "observations: 17 rows; between 1 and 16 are accepted"),
    ],
)
def test_what_does_not_fit_is_422_and_names_the_field(client, observations, said):
    status, answer = client.act(observations)
    assert status == 422
    assert answer["detail"].startswith(said)
    assert "\n" not in answer["detail"]
    assert client.act([0, 0, 0])[0] == 200  # the connection goes on


def test_texts_take_no_more_memory_than_was_sent():
    """Of texts NumPy would make an array in which each has the room of the longest: gigabytes of one request."""
    tracemalloc.start()
    with pytest.raises(BadInput, match="must be numbers"):
        parse_request({"observations": ["a" * 50_000, *["b"] * 10_000]}, Box((3,), "float32", (-1.0,), (1.0,)), (), 16)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b'{"observations": [NaN, 0, 0]}', 400),
        *(
            (b'{"observations": ' + b"[" * deep + inner + b"]" * deep + b"}", 422)
            for deep in (33, 65)
            for inner in (b"", b"1")
        ),
        (b'{"observations": [Infinity, 0, 0]}', 400),
        (b"\xff\xfe", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"observations": [0,0,0], "carry": {"h": 1}}', 422),
        (b'{"observations": [0,0,0], "more": 1}', 422),
        (b'{"observations": [' + b"9" * 5000 + b",0,0]}", 400),
    ],
)
def test_strange_bodies(client, body, status):
    assert client.ask("POST", "/act", body, Content_Type="application/json")[0] == status


def test_only_json_by_its_type(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
        assert client.ask("POST", "/act", "{}", Content_Type=kind)[0] == 415
    assert client.ask("POST", "/act", "{}")[0] == 415


def test_wrong_routes_and_methods(client):
    assert client.ask("GET", "/act")[0] == 405
    assert client.ask("POST", "/spec", "{}", Content_Type="application/json")[0] == 405
    assert client.ask("GET", "/../spec.json")[0] == 404
    assert client.ask("DELETE", "/act")[0] == 405


def test_a_body_that_is_too_large_is_not_read(server):
    most = Limits().body
    for length, status in ((most + 1, b"413"), (10**19, b"413"), (10**30, b"400"), ("-1", b"400"), ("1e3", b"400")):
        answer = server.exchange(server.head(Content_Type="application/json", Content_Length=length))
        assert answer.split()[1] == status, length


def test_many_at_once_get_what_one_would(server):
    agent, _ = trained("ppo-Numbers")
    rows = np.random.default_rng(1).uniform(-1, 1, (8, 20, 3)).astype(np.float32)
    answers = {}

    def ask(k):
        client = Client(server)
        answers[k] = [client.act(row.tolist())[1]["actions"] for row in rows[k]]
        client.close()

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answers[k] == agent.act(rows[k]).tolist() for k in range(8))


def test_the_token_lies_where_asked_for_its_owner_only(tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    write_token(tmp_path / "token", "secret")
    assert (tmp_path / "elsewhere").read_text() == "precious"
    assert (tmp_path / "token").read_text() == "secret\n"
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    with pytest.raises(UserError, match="--token-file"):
        write_token(tmp_path / "no" / "where", "secret")


def test_without_a_token_only_on_the_loopback_address(toy):
    with pytest.raises(UserError, match="--no-auth"):
        serve_policy(toy, ListenPlace("0.0.0.0", 0), max_batch=1, token_file=None, auth=False, say=print)
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("localhost.evil.example")
    with running(toy, Access(is_open=True)) as server:
        assert Client(server, token=None).act([0, 0, 0])[0] == 200


SPACE = Dict((("box", Box((2,), "float32", (-1.0,), (1.0,))), ("n", Discrete(3)), ("parts", MultiDiscrete((2, 3)))))
GOOD = {"box": [0.5, -0.5], "n": 2, "parts": [1, 2]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": 3}, "observations.n: must be within 0 to 2"),
        ({"n": -1}, "observations.n: must be within 0 to 2"),
        ({"n": 1.5}, "observations.n: must be whole numbers"),
        ({"parts": [0, 3]}, "observations.parts: must be within 0 to [1, 2]"),
        ({"parts": [0]}, "observations.parts: has shape [1]"),
        ({"box": [[0, 0]]}, "observations.n: has one observation, observations.box 1 rows"),
        ({"more": 1}, "observations.more: unknown entry; the space has box, n, parts"),
        ({"n": 10**30}, "observations.n: must be numbers"),
    ],
)
def test_entries_of_a_dict(change, said):
    with pytest.raises(BadInput) as caught:
        parse_request({"observations": GOOD | change}, SPACE, (), 8)
    assert str(caught.value).startswith(said)


def test_good_entries_of_a_dict():
    parsed = parse_request({"observations": GOOD}, SPACE, (), 8)
    assert parsed.single
    assert {name: (rows.dtype.name, rows.shape) for name, rows in parsed.observations.items()} == {
        "box": ("float32", (1, 2)),
        "n": ("int64", (1,)),
        "parts": ("int64", (1, 2)),
    }
    with pytest.raises(BadInput, match=r"observations\.n: missing"):
        parse_request({"observations": {"box": [0, 0], "parts": [0, 0]}}, SPACE, (), 8)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["box", "n", "parts", "x"]), inner),
    max_leaves=12,
)


@settings(max_examples=200)
@given(JSON)
def test_anything_else_is_refused_in_one_line(value):
    message = "observations: none"
    try:
        parse_request({"observations": value}, SPACE, (), 8)
    except BadInput as error:
        message = str(error)
    assert message.startswith("observations")
    assert "\n" not in message
