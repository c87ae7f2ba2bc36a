"""The throughput table: what is trained, what is skipped, what reaches its score."""

import pytest
from benchmarks.cells import CELLS
from benchmarks.jobs import JobFailed
from benchmarks.throughput import SETTINGS, Setting
from benchmarks.venvs import ours

from benchmarks import throughput

WIDE = Setting("ppo_cartpole", ("env.num_envs=32",))


def line(setting, seed, value=500.0, seconds=2.0):
    machine = {"cores": 2, "processor": "some"}
    fields = {"key": setting.key, "identity": setting.identity, "seed": seed, "date": "2026-01-01", "machine": machine}
    return {**fields, "returns": [value], "env_steps": 1000, "seconds": seconds}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_each_setting_is_a_cell_with_a_published_score_within_its_budget(setting):
    assert setting.cell in CELLS
    assert setting.experiment.train.planned_steps <= 1.03 * setting.cell.published.steps


def test_another_override_or_thread_count_is_another_setting():
    others = [Setting("ppo_cartpole", ("env.num_envs=64",)), Setting("ppo_cartpole", WIDE.overrides, threads=2)]
    assert len({WIDE.identity, *(other.identity for other in others)}) == 3
    stored = [line(WIDE, 0), line(others[0], 1), line(WIDE, 0, value=1.0)]
    assert [found["returns"] for found in throughput.lines_of(WIDE, stored)] == [[1.0]]


def test_a_seed_that_is_there_is_not_trained_again_and_a_failed_one_is_counted(tmp_path, monkeypatch):
    asked = []

    def run_job(python, runner, job, timeout):
        asked.append((runner, job["seed"], job["overrides"]))
        if job["seed"] == 1:
            raise JobFailed("killed")
        return {"returns": [1.0], "env_steps": 5, "seconds": 0.1}

    monkeypatch.setattr(throughput, "run_job", run_job)
    monkeypatch.setattr(throughput, "STORE", tmp_path / "throughput.jsonl")
    assert throughput.train([WIDE], seeds=2, episodes=1, venv=ours()) == 1
    assert throughput.train([WIDE], seeds=3, episodes=1, venv=ours()) == 1
    assert [seed for _, seed, _ in asked] == [0, 1, 1, 2]
    assert asked[0][0] == "rlstudio_learner"
    assert asked[0][2][0] == "env.num_envs=32"


def test_the_report_says_what_is_reached(monkeypatch):
    narrow = Setting("ppo_cartpole", ("env.num_envs=16",))
    monkeypatch.setattr(throughput, "SETTINGS", (WIDE, narrow))
    seconds = (1.0, 2.0, 10.0)
    text = throughput.report([line(WIDE, seed, seconds=s) for seed, s in enumerate(seconds)] + [line(narrow, 0, 499.0)])
    assert "`env.num_envs=32` | 500 | 1,000 | 500.0 [500.0, 500.0] (n=3) | >= 500 | yes |" in text
    assert "| >= 500 | **no** |" in text
    assert throughput.report([]) == "No setting has been trained yet."
