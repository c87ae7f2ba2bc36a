"""Rollout workers give the same bits wherever they are, and each environment what it gets without them."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from ipaddress import ip_address

import numpy as np
import psutil
import pytest
import torch

from rlstudio.experiment.training.build import build
from rlstudio.scale.ray_start import start_ray
from support.experiments import tiny
from support.processes import in_child
from support.worker_runs import opened, pids, run, run_in_two, with_workers

ALGOS = ("ppo", "a2c", "dqn", "sac")
SHORT = {"train": {"epochs": 2}}


@pytest.mark.parametrize("algo", ALGOS)
def test_processes_give_the_bits_of_one_process(algo):
    here, there = (run(with_workers(algo, backend, **SHORT)) for backend in ("local", "process"))
    assert there.state_hash == here.state_hash
    assert np.array_equal(
        [*map(list, map(dict.values, there.metrics))], [*map(list, map(dict.values, here.metrics))], equal_nan=True
    )
    assert there.restarts == []
    assert there.exact is None


@pytest.mark.parametrize("env", [{}, {"vectorization": "sync"}], ids=["native", "gymnasium"])
def test_a_single_worker_is_as_no_worker(env):
    """With one slice products have the same shapes, so not a bit of the weights differs."""
    weights = []
    for rollout in ({"workers": 1, "backend": "local"}, {"workers": None, "backend": "auto"}):
        cfg = with_workers("ppo", "local", env=env, rollout=rollout)
        with opened(cfg) as built:
            for _ in range(3):
                built.trainer.train_step()
            weights.append(built.trainer.optimizer.flat.data.clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    "workers", [3, pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
def test_slices_do_not_change_what_an_environment_is_given(workers):
    """In a warm-up actions are random and nothing is learned: seeds and noise alone decide, to the last bit."""
    rollouts = []
    for count in (1, workers):
        cfg = with_workers("sac", "local", workers=count, env={"vectorization": "sync", "max_episode_steps": 5})
        with opened(cfg) as built:
            rollouts.append(built.trainer.source.collector.collect(8))
    for name in ("observations", "actions", "rewards", "truncated"):
        assert torch.equal(*(getattr(rollout, name) for rollout in rollouts)), name


def test_an_agent_that_remembers_keeps_its_memory_in_the_worker():
    network = {
        "policy": {"network": {"hidden_sizes": [8], "memory": "gru"}},
        "train": {"epochs": 2, "sequence_length": 4},
    }
    ended = [run(with_workers("ppo", backend, **network)) for backend in ("local", "process")]
    assert ended[0].state_hash == ended[1].state_hash


@pytest.mark.parametrize("algo", ["sac", pytest.param("ppo", marks=pytest.mark.slow)])
def test_a_run_goes_on_from_its_midst_on_another_backend(algo):
    cfg = with_workers(algo, "local", env={"vectorization": "sync"})
    whole = run(cfg).state_hash
    assert run_in_two(cfg, with_workers(algo, "process", env={"vectorization": "sync"})) == whole
    assert run_in_two(with_workers(algo, "process", env={"vectorization": "sync"}), cfg) == whole


def on_ray(check):
    """Whether `check` goes well in a child of this process: a process that had a Ray once should fork no others."""

    def act():
        check()
        import ray  # by now its settings are in place

        assert all(node["NodeManagerAddress"] == "127.0.0.1" for node in ray.nodes())
        listening = listening_addresses()
        assert len(listening) > 3, "of Ray's own processes"
        assert all(ip_address(address).is_loopback for address in listening), listening
        assert not ray.worker.get_dashboard_url()
        ray.shutdown()

    return in_child(act) == 0


def listening_addresses():
    """Of this process and all that come from it."""
    here, found = psutil.Process(), []
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # Ray ended it just now
            found += [one for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    return [one.laddr.ip.removeprefix("::ffff:") for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("token", [None, "0" * 64])
def test_nobody_joins_a_ray_of_our_own_without_its_token(token):
    def check():
        ray = start_ray("test", cpus=1)
        others = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        others |= {} if token is None else {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
        address = ray.get_runtime_context().gcs_address
        code = f"from rlstudio.scale.ray_start import start_ray; start_ray('test', {address!r})"
        joined = subprocess.run([sys.executable, "-c", code], env=others, capture_output=True, text=True, check=False)
        assert joined.returncode != 0
        assert f"test: the Ray at {address} does not let this process in (Failed to connect" in joined.stderr

    assert on_ray(check)


def same_on_ray(*algos):
    for algo in algos:
        cfg, local = (with_workers(algo, backend, **SHORT) for backend in ("ray", "local"))
        assert run_in_two(cfg, local) == run(local).state_hash


def test_ray_gives_the_bits_of_one_process_and_goes_on_from_its_midst():
    """Workers, and learners that Ray has placed."""

    def check():
        same_on_ray("ppo")
        here, there = (tiny("ppo", runtime={"learners": 2, "ranks": ranks}) for ranks in ("process", "ray"))
        assert run(there).state_hash == run(here).state_hash

    assert on_ray(check)


@pytest.mark.slow
def test_ray_gives_the_bits_of_one_process_for_other_algorithms():
    assert on_ray(lambda: same_on_ray("a2c", "dqn", "sac"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_killed_and_stopped_actors_are_replaced_and_no_bit_changes(number):
    def strike(step, built):
        if step == 1:
            for pid in pids(built):
                os.kill(pid, number)

    def check():
        ended = run(with_workers("ppo", "ray"), strike)
        assert ended.state_hash == run(with_workers("ppo", "local")).state_hash
        assert len(ended.restarts) == 2
        assert ended.exact is None

    assert on_ray(check)


def test_the_topology_names_the_workers_but_not_where_they_are():
    built = build(with_workers("ppo", "local"))
    assert built.runtime.topology() == {"num_envs": 4, "vectorization": "native", "rollout.workers": 2}
    built.close()
