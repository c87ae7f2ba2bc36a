"""A run reports, evaluates and saves from its first step, also while its replay still fills up."""

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.snapshot import capture
from rlstudio.experiment.checkpoint.state_hash import state_hash
from rlstudio.experiment.metrics.indexed.index import read_series
from rlstudio.experiment.training import loop
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import Position, train
from support.experiments import tiny
from support.sessions import resume, start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end

SECTIONS = {
    "eval": {"every_epochs": 2, "episodes": 2, "final_episodes": 2},
    "gates": {"min_return": 1e6, "warmup_epochs": 6},
    "guardrails": {"limits": {"train/grad_norm": 1e9}},
    "ckpt": {"every_seconds": None, "every_epochs": 3},
}
TRAIN = {"epochs": 8, "steps_per_epoch": 64, "learning_starts": 300}


def experiment(algo: str, **sections):
    return tiny(algo, train=TRAIN | ({"prioritized": {}} if algo == "qrdqn" else {}), **sections)


def test_metrics_evaluations_and_checkpoints_exist_before_the_first_update(tmp_path):
    """Newcomer S1: with a warm-up of 15 epochs the first line was of epoch 15, and the evaluations before were left
    out. Gates do not judge a policy that has not learned, and limits are not missed in its epochs."""
    cfg = experiment("sac", **(SECTIONS | {"gates": {"min_return": -1e6, "patience": 1}}))
    with start(cfg, tmp_path) as session:
        for tick in session:
            if tick.report is not None and tick.epoch == 4:
                break
        assert tick.gradient_steps == 0
    run = only_run(tmp_path)
    series = read_series(run.path)
    assert series["rollout/episodes"][0] == [64, 128, 192, 256]
    assert series["eval/return_mean"][0] == [0, 128, 256]
    assert "train/grad_norm" not in series
    assert run.read_status().env_steps == 256
    with resume(run) as session:
        for _ in session:
            pass
    assert run.read_status().state == RunState.COMPLETED


@pytest.mark.parametrize("algo", ["sac", "qrdqn"])
def test_a_run_stopped_within_its_warm_up_goes_on_bit_for_bit(algo, tmp_path):
    cfg = experiment(algo, eval={"every_epochs": 0, "final_episodes": 1})
    whole = run_to_the_end(cfg, tmp_path / "whole")
    with start(cfg, tmp_path / "stopped") as session:
        for tick in session:
            if tick.env_steps > 100:
                break
    assert_same_result(run_to_the_end(cfg, tmp_path / "stopped"), whole)


@pytest.mark.parametrize("algo", ["dqn", "qrdqn", "sac", "mbmpc"])
def test_a_warm_up_in_parts_learns_the_same_bits_as_in_one_piece(algo, monkeypatch):
    """Exploration and learning rate follow the run's progress: during the warm-up they stand at its start."""

    def trained(part: int) -> str:
        monkeypatch.setattr(loop, "WARM_UP_STEPS", part)
        steps = {"learning_starts": 60, "steps_per_epoch": 64} if algo == "mbmpc" else {"steps_per_epoch": 400}
        built = build(tiny(algo, train=TRAIN | {**steps, "epochs": 1, "lr_schedule": "linear"}))
        list(train(built.trainer, built.trainer.cfg, Position()))
        content = capture(built.trainer, {}, seed=0, attempt=0, meta={"run_id": "x", "metrics": {}})
        built.close()
        return state_hash(content)

    assert trained(part=10) == trained(part=10**6)


def test_the_curve_begins_at_step_0_and_training_does_not_notice(tmp_path):
    """Newcomer S4: curves started at the first evaluation during training."""
    ends = {}
    for at_start in (True, False):
        cfg = tiny(eval={"at_start": at_start, "every_epochs": 2, "episodes": 2})
        run = run_to_the_end(cfg, tmp_path / str(at_start))
        ends[at_start] = run.read_status().state_hash, read_series(run.path)
    assert ends[True][0] == ends[False][0]
    with_it, without = ends[True][1], ends[False][1]
    assert with_it["eval/return_mean"][0] == [0, *without["eval/return_mean"][0]]
    assert with_it["eval/return_mean"][1][1:] == without["eval/return_mean"][1]
    assert with_it["train/loss"] == without["train/loss"]
