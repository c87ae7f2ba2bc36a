"""A run whose metric no longer gets better ends as completed, and says why."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.errors import ConfigError, UserError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.judging import GatesConfig, PlateauConfig
from rlstudio.experiment.judging.gates import Gates
from rlstudio.experiment.judging.plateau import Plateau
from support.experiments import tiny
from support.sessions import resume, start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end

RULE = {"metric": "train/lr", "epochs": 3, "min_delta": 1.0}
CONSTANT = {"train": {"epochs": 9, "lr_schedule": "constant"}, "gates": {"plateau": RULE}}


@given(
    values=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    epochs=st.integers(1, 5),
    delta=st.integers(0, 2),
    sign=st.sampled_from([1, -1]),
)
def test_it_is_over_once_nothing_was_better_for_so_many_epochs(values, epochs, delta, sign):
    direction = "maximize" if sign == 1 else "minimize"
    rule = PlateauConfig(metric="m", epochs=epochs, min_delta=delta, direction=direction)
    plateau, best, last = Plateau(rule), None, 0
    for epoch, value in enumerate(values, start=1):
        if best is None or value > best + delta:
            best, last = value, epoch
        plateau.add(epoch, {"m": float(sign * value), "other": 0.0})
        assert plateau.is_over is (epoch - last >= epochs)
        later = Plateau(rule)
        later.load_state_dict(json.loads(json.dumps(plateau.state_dict())))
        plateau = later


def test_a_run_on_a_plateau_is_completed_and_a_stopped_one_ends_at_the_same_epoch(tmp_path):
    """The learning rate stands still, so nothing is better after the first epoch."""
    whole = run_to_the_end(tiny(**CONSTANT), tmp_path / "whole")
    status = whole.read_status()
    assert (status.state, status.reason, status.epoch) == (RunState.COMPLETED, "plateau", 4)
    assert status.message == (
        "train/lr was not better by more than 1 than 0.0003 of epoch 1 for gates.plateau.epochs=3; after 4 of 9 epochs"
    )
    with pytest.raises(UserError, match=rf"train on from there with: rlctl fork {whole.id} gates.plateau=null"):
        resume(whole)
    with start(tiny(**CONSTANT), tmp_path / "stopped") as session:
        for tick in session:
            if tick.epoch == 3:
                break
    assert_same_result(run_to_the_end(tiny(**CONSTANT), tmp_path / "stopped"), whole)


def test_evaluations_are_followed_too(tmp_path):
    """No return is better by a thousand: the second evaluation, two epochs after the first, ends the run."""
    gates = {"plateau": {"epochs": 2, "min_delta": 1000.0}}
    cfg = tiny(train={"epochs": 9}, eval={"every_epochs": 2, "episodes": 1}, gates=gates)
    status = run_to_the_end(cfg, tmp_path).read_status()
    assert (status.reason, status.epoch) == ("plateau", 4)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("eval/return_meen", "eval/return_mean"),
        ("eval/mean_return", "eval/return_mean"),
        ("rollout/return", "rollout/return_mean"),
        ("return_mean", "eval/return_mean"),
        ("rollout/is_sucess", "rollout/is_success"),
    ],
)
def test_a_misspelt_metric_is_refused_before_there_is_a_run(misspelt, meant):
    sections = {"env": {"infos": ["is_success"]}, "eval": {"every_epochs": 1, "episodes": 2}}
    asked = rf"no metric '{misspelt}'; did you mean {meant}\?"
    with pytest.raises(ConfigError, match=rf"gates.plateau.metric: {asked}"):
        tiny(**sections, gates={"plateau": {"metric": misspelt, "epochs": 100}})
    tiny(**sections, gates={"plateau": {"metric": meant, "epochs": 100}})


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("rollout/return", "rollout/return_mean"),
        ("return_mean", "rollout/return_mean"),  # not one of evaluations, which would be refused next
        ("rollout/is_sucess", "rollout/is_success"),
    ],
)
def test_a_misspelt_limit_is_refused_with_a_name_that_may_stand_there(misspelt, meant):
    env = {"infos": ["is_success"]}
    with pytest.raises(ConfigError, match=rf"guardrails.limits: no metric '{misspelt}'; did you mean {meant}\?"):
        tiny(env=env, guardrails={"limits": {misspelt: 1.0}})
    tiny(env=env, guardrails={"limits": {meant: 1.0}})


@pytest.mark.parametrize("name", ["eval/return_mean", "eval/return_meen"])
def test_a_limit_on_an_evaluation_is_refused_before_there_is_a_run(name):
    with pytest.raises(ConfigError, match=rf"{name} is of evaluations, and limits are of epochs; see gates"):
        tiny(guardrails={"limits": {name: 1.0}})


def test_a_metric_of_learning_that_never_comes_is_named_at_the_first_epoch(tmp_path):
    rule = {"metric": "train/entrpy", "epochs": 100}
    with pytest.raises(ConfigError, match=r"gates.plateau: no metric 'train/entrpy'; did you mean train/entropy\?"):
        run_to_the_end(tiny(gates={"plateau": rule}, eval={"every_epochs": 1, "episodes": 2}), tmp_path)
    status = only_run(tmp_path).read_status()
    assert (status.state, status.epoch) == (RunState.FAILED, 0)


def test_a_metric_of_ones_own_may_come_later():
    plateau = Plateau(PlateauConfig(metric="own/height", epochs=2))
    for epoch in (1, 2):
        plateau.add(epoch, {"train/lr": 1.0})
    plateau.add(2, {"eval/return_mean": 1.0})
    with pytest.raises(ConfigError, match=r"gates\.plateau: no metric 'own/height'"):
        plateau.add(3, {"train/lr": 1.0})


def test_without_evaluations_there_is_none_to_follow():
    with pytest.raises(
        ConfigError, match=r"gates.plateau: it follows evaluations during training; set eval.every_epochs"
    ):
        tiny(gates={"plateau": {"epochs": 3}}, eval={"every_epochs": 0})


def test_without_a_plateau_nothing_is_kept():
    gates = Gates(GatesConfig())
    gates.follow(1, {"train/lr": 1.0})
    assert gates.state_dict() == {"misses": 0}
