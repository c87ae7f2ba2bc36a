"""What is refused with rollout workers, how `auto` chooses, and how messages are packed."""

import socket
import threading

import numpy as np
import pytest

from rlstudio.cli.screen.summary import header
from rlstudio.control.runs.looking.documents import run_document
from rlstudio.core.config import config_hash
from rlstudio.core.errors import ConfigError, Incompatible, UserError
from rlstudio.experiment.training.build import build
from rlstudio.scale import ray_start
from rlstudio.scale.workers import probe
from rlstudio.scale.workers.job import slices
from rlstudio.scale.workers.message import decode, encode
from rlstudio.scale.workers.probe import Work, fastest
from support.experiments import tiny
from support.sessions import start
from support.worker_runs import opened, with_workers

DRAWN = {"length": {"uniform": [0.4, 0.6]}}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rollout": {"workers": 3}}, r"rollout\.workers: 3 workers for 2 copies \(env\.num_envs\); use 2 or fewer"),
        (
            {"rollout": {"workers": None, "backend": "ray"}},
            r"rollout\.backend: ray is where workers are; set rollout\.workers too",
        ),
        *(
            ({"env": {"vectorization": kind}}, rf"env\.vectorization: {kind} cannot be divided among rollout\.workers")
            for kind in ("async", "envpool", "vector")
        ),
        ({"env": {"params": DRAWN}}, r"env\.params: with rollout\.workers only numbers can be set"),
        ({"runtime": {"numerics": "portable"}}, r"runtime\.numerics: portable is of the training process alone"),
        ({"self_play": {}}, r"rollout\.workers: they cannot go with self_play; leave one of them out"),
        ({"rollout": {"workers": None, "mode": "async"}}, r"rollout\.mode: async is how workers collect; set rollout"),
        (
            {"rollout": {"max_staleness": 2}},
            r"rollout\.max_staleness: synchronous workers have the newest weights",
        ),
        (
            {"env": {"num_envs": 5}, "rollout": {"mode": "async"}},
            r"env\.num_envs: 5 cannot be divided evenly among 2 asynchronous workers; 4 can",
        ),
    ],
)
def test_what_cannot_be_divided_is_refused_by_name(changes, says):
    given = {**changes, "rollout": {"workers": 2, **changes.get("rollout", {})}}
    with pytest.raises(ConfigError, match=says):
        tiny("ppo", **given)


def test_several_agents_are_refused_by_name():
    cfg = tiny("ppo", env={"id": "rlstudio/TicTacToe-v0", "num_envs": 4}, rollout={"workers": 2, "backend": "local"})
    with pytest.raises(Incompatible, match=r"rollout\.workers: rlstudio/TicTacToe-v0 has several agents"):
        build(cfg)


def test_without_ray_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(ray_start, "is_installed", lambda: False)
    with pytest.raises(Incompatible, match=r"rollout\.backend: Ray is not installed; run `"):
        build(with_workers("ppo", "ray"))


@pytest.mark.parametrize(("address", "reason"), [("127.0.0.1:1", ".*refused"), ("head", "expected HOST:PORT.*")])
def test_a_cluster_that_does_not_answer_is_refused_at_once(address, reason, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UserError, match=rf"^rollout\.backend: no Ray answers at {address} \({reason}\); start it"):
        build(with_workers("ppo", "ray"))


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_another_program_at_the_address_is_not_taken_for_a_ray(words, monkeypatch):
    monkeypatch.setattr(ray_start, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{server.getsockname()[1]}")
        threading.Thread(target=lambda: server.accept()[0].sendall(words), daemon=True).start()
        with pytest.raises(UserError, match=r"no Ray answers at .* \(another program listens there\)"):
            build(with_workers("ppo", "ray"))


def test_hashes_of_older_configs_stay_and_the_backend_is_not_part_of_one():
    plain = config_hash(tiny("ppo"))
    assert config_hash(tiny("ppo", rollout={"workers": None, "backend": "auto", "mode": "sync"})) == plain
    hashes = {config_hash(tiny("ppo", rollout={"workers": 2, "backend": name})) for name in ("auto", "local", "ray")}
    assert len(hashes) == 1
    assert plain not in hashes


def test_a_slice_is_a_stretch_of_environments():
    assert slices(7, 3) == [range(2), range(2, 4), range(4, 7)]


@pytest.mark.parametrize(
    ("seconds", "work", "cores", "backend"),
    [
        (5e-3, Work(4, 2, 16), 2, "process"),
        (5e-3, Work(4, 2, 16), 1, "local"),  # nobody would act at the same time
        (2e-5, Work(4, 2, 1), 2, "local"),  # the exchange costs more than the step
        (5e-3, Work(4, 8, 64, "auto"), 2, "ray"),
        (2e-5, Work(4, 2, 1, "auto"), 2, "local"),
        (2e-3, Work(1, 1, 1), 2, "local"),
        (2e-3, Work(1, 1, 1, ahead=True), 2, "process"),  # it acts while the run learns
        (2e-3, Work(1, 1, 1, ahead=True), 1, "local"),
        (5e-5, Work(1, 1, 1, ahead=True), 2, "local"),
    ],
)
def test_auto_takes_what_is_expected_to_be_fastest(seconds, work, cores, backend):
    assert fastest(seconds, work, cores).backend == backend


def test_auto_keeps_a_fast_world_in_the_training_process_and_the_run_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "step_seconds", lambda job, work: 2e-5)
    cfg = with_workers("sac", "auto")
    with start(cfg, tmp_path) as session:
        list(session)
        facts = session.folder.rollout_workers()
        lines = [*header(session, "a test"), str(run_document(session.status, session.folder)["rollout_workers"])]
    assert (facts["workers"], facts["backend"]) == (2, "local")
    assert facts["reason"].startswith("auto, the run is expected to wait for a rollout: local ")
    assert f"workers     2, local ({facts['reason']})" in lines
    assert str(facts) in lines


def test_the_probe_measures_a_step_of_a_slice():
    with opened(with_workers("ppo", "local")) as built:
        assert probe.step_seconds(built.runtime.job, Work(2, 2, 1)) > 0


def test_a_message_comes_back_as_it_was():
    state = {"rows": np.arange(6, dtype=np.float32).reshape(2, 3), "nested": {"flags": np.array([True, False])}}
    state |= {"text": "x", "number": float("inf"), "list": [1, (2, None)], "none": np.empty((0, 3))}
    memory = np.zeros(1 << 12, np.uint8)
    again = decode(encode(state, lambda size: memory[:size]))
    assert again["list"] == state["list"]
    assert (again["text"], again["number"]) == ("x", float("inf"))
    for one, other in ((again["rows"], state["rows"]), (again["nested"]["flags"], state["nested"]["flags"])):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
        assert np.shares_memory(one, memory), "no copy"
    assert again["none"].shape == (0, 3)


def test_a_message_with_objects_is_refused():
    good = encode({"rows": np.zeros(2)})
    bad = np.frombuffer(good.tobytes().replace(b"<f8", b"|O8"), np.uint8)
    with pytest.raises(ValueError, match="has objects in it"):
        decode(bad)
