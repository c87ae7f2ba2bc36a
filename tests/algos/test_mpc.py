"""MPC: a Trainer that learns nothing still keeps every promise of one."""

import numpy as np
import pytest

from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.run.load import load_run
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train
from support.experiments import tiny
from support.sessions import start


def config(**train_fields):
    planner = {"kind": "random_shooting", "horizon": 15, "candidates": 64}
    return tiny("mpc", train={"epochs": 2, "steps_per_epoch": 60, "planner": planner, **train_fields})


def test_it_reports_what_it_earned_and_no_gradient():
    cfg = config(rollout_steps=10)
    trainer = build_trainer(cfg, build_runtime(cfg))
    ticks = list(train(trainer, cfg.train, Position()))
    assert [tick.env_steps for tick in ticks] == [20, 40, 60, 80, 100, 120]
    assert all(tick.gradient_steps == 0 for tick in ticks)
    report = ticks[-1].report
    assert report.metrics["train/reward"] == 1.0
    assert "train/lr" not in report.metrics
    assert report.metrics["guard/skipped_share"] == 0


def test_it_holds_the_pole_from_the_first_step():
    cfg = config(planner={"kind": "random_shooting", "horizon": 15, "candidates": 256})
    trainer = build_trainer(cfg, build_runtime(cfg))
    env = cfg.env.model_copy(update={"max_episode_steps": 150})
    assert evaluate(trainer.agent, env, episodes=4, seed=3).returns == (150.0,) * 4


def test_a_run_of_it_can_be_loaded(tmp_path):
    with start(config(epochs=1), tmp_path) as session:
        for _ in session:
            pass
        folder = session.folder
    loaded = load_run(folder)
    actions = loaded.agent.episode().act(np.zeros((3, 4), np.float32))
    assert actions.shape == (3,)
    assert session.evaluation.summary.mean == pytest.approx(np.mean(session.evaluation.returns))
