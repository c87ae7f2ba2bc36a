"""IPPO beside another library: the same settings on all sides, steps of the world, and absent peers are named."""

import pytest
from benchmarks.jobs import JobFailed
from benchmarks.multi_agent_peers import AGENTS, SIDES, job, measure, page
from benchmarks.venvs import CannotInstall, Venv

from benchmarks import multi_agent_peers


def venv(peer):
    return Venv(f"python of {peer}", {"mpe2": "1"})


@pytest.fixture
def alone(monkeypatch):
    """No peer is installed and nothing runs: every side takes 300 steps a second, by its own count."""
    monkeypatch.setattr(multi_agent_peers, "prepare", venv)
    monkeypatch.setattr(multi_agent_peers, "run_job", lambda python, runner, spec: {"steps_per_second": 300.0})


def test_the_sides_differ_in_how_they_run_the_world_alone():
    jobs = [job(side, 7, 1.0) for side in SIDES]
    shared = set.intersection(*(set(spec) for spec in jobs)) - {"warmup_steps"}
    assert all(spec[name] == jobs[0][name] for spec in jobs for name in shared)
    assert {"num_envs", "rollout_steps", "batch_size", "passes", "hidden_sizes", "threads"} <= shared
    assert [spec["warmup_steps"] / side.steps for spec, side in zip(jobs, SIDES, strict=True)] == [1600] * len(SIDES)


def test_our_side_understands_its_job(monkeypatch):
    monkeypatch.syspath_prepend(str(multi_agent_peers.ROOT / "benchmarks" / "peers"))
    import rlstudio_runner

    world, sync = (rlstudio_runner.experiment(job(side, 7, 1.0)) for side in SIDES[:2])
    assert (world.train.batch_size, world.train.rollout_steps, world.env.num_envs) == (240, 100, 8)
    assert (world.env.vectorization, sync.env.vectorization) == ("auto", "sync")


def test_our_steps_of_agents_count_as_steps_of_the_world(alone):
    rates = measure(1.0, 2)["rates"]
    assert rates == {"0": [300 / AGENTS] * 2, "1": [300 / AGENTS] * 2, "2": [300.0] * 2}


def test_a_peer_that_fails_is_named_and_the_others_are_measured(alone, monkeypatch):
    def run_job(python, runner, spec):
        if runner == "rllib_agents_runner":
            raise JobFailed("ValueError: no space")
        return {"steps_per_second": 600.0 if spec["vectorization"] == "auto" else 300.0}

    monkeypatch.setattr(multi_agent_peers, "run_job", run_job)
    text = page(measure(1.0, 2))
    assert "| RLStudio | own NumPy world |" in text
    assert "| 200 | 200 to 200 | 1.0 |" in text
    assert "| 100 | 100 to 100 | 2.0 |" in text
    assert "rllib_agents does not run: ValueError: no space." in text


def test_without_the_peer_ours_is_measured_all_the_same(alone, monkeypatch):
    def prepare(peer):
        raise CannotInstall("no network")

    monkeypatch.setattr(multi_agent_peers, "prepare", prepare)
    text = page(measure(1.0, 1))
    assert text.count("| RLStudio |") == 2
    assert "rllib_agents cannot be installed: no network." in text
