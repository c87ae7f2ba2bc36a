"""A run with drawn parameters: cut and resumed it is the uninterrupted one, and its metrics say what was drawn."""

import pytest

from rlstudio.experiment.metrics.reader import read_metrics
from support.tiny_runs import assert_same_result, config, open_run, run_to_the_end

PARAMS = {"gravity": {"uniform": [5.0, 15.0]}, "length": {"uniform": [0.25, 1.5], "observed": True}}
TRAIN = {"epochs": 6, "steps_per_epoch": 64, "rollout_steps": 16, "batch_size": 32, "passes": 1}


@pytest.mark.parametrize("vectorization", ["native", "sync"])
def test_a_cut_run_ends_as_the_uninterrupted_one(vectorization, tmp_path):
    env = {"id": "CartPole-v1", "num_envs": 2, "seed": 7, "vectorization": vectorization, "params": PARAMS}
    cfg = config("ppo", vectorization, env=env, train=TRAIN, ckpt={"every_seconds": None, "every_epochs": 1})
    whole = run_to_the_end(cfg, tmp_path / "whole")
    with open_run(cfg, tmp_path / "cut") as session:
        for _ in session:
            if session.status.epoch == 3:  # in the middle of open episodes
                break
    resumed = run_to_the_end(cfg, tmp_path / "cut")
    assert_same_result(resumed, whole)
    drawn = [record.value for record in read_metrics(whole.path) if record.key == "params/length"]
    assert len(drawn) == TRAIN["epochs"]
    assert len(set(drawn)) > 1
    assert all(0.25 <= mean <= 1.5 for mean in drawn)
