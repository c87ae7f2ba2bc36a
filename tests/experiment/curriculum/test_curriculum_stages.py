"""Stages and annealing: gates with windows, patience and demotion, mixing weights, timeouts, by hand."""

from __future__ import annotations

from math import nan, sqrt

import pytest

from rlstudio.envs.params.distributions import Constant, LogUniform, Normal, Uniform
from rlstudio.experiment.curriculum.anneal import Anneal, between
from rlstudio.experiment.curriculum.episodes import Episodes, Measure
from rlstudio.experiment.curriculum.sections import AnnealConfig, StageConfig, SuccessConfig
from rlstudio.experiment.curriculum.stages import Stages

GATE = {"metric": "return", "at_least": 1.0, "window": 4, "min_episodes": 2}


def stages(*changes: dict, gate: dict | None = None) -> Stages:
    """Three stages a, b and c; `changes` are their settings."""
    made = [
        StageConfig(**{"name": name, "params": {"x": float(place)}, "gate": {**GATE, **(gate or {})}, **change})
        for place, (name, change) in enumerate(zip("abc", [*changes, {}, {}, {}], strict=False))
    ]
    return Stages(made, {"y": Constant(5.0)}, Measure())


def of(stage: int, *returns: float) -> Episodes:
    n = len(returns)
    return Episodes(list(returns), [1] * n, {}, [stage] * n, [0] * n)


def weights(curriculum: Stages) -> list[float]:
    return [component.weight for component in curriculum.draw.components]


def test_a_gate_waits_for_its_episodes_and_then_opens():
    curriculum = stages()
    assert weights(curriculum) == [1, 0, 0]
    assert curriculum.update(of(0, 1.0), 10).changes == ()
    (change,) = curriculum.update(of(0, 1.0), 20).changes
    assert change.facts == {"number": 2, "stage": "b", "why": "gate", "value": 1.0}
    assert (curriculum.stage, curriculum.version, weights(curriculum)) == (1, 1, [0, 1, 0])
    assert curriculum.draw.components[1].params == {"x": Constant(1.0), "y": Constant(5.0)}


def test_only_the_window_counts():
    curriculum = stages()
    curriculum.update(of(0, -9.0, -9.0, 1.0, 1.0), 10)
    assert (curriculum.stage, curriculum.value) == (0, -4.0)
    curriculum.update(of(0, 1.0), 20)
    assert curriculum.stage == 0
    curriculum.update(of(0, 1.0), 30)  # the second -9 is out of the window
    assert curriculum.stage == 1


def test_episodes_of_other_stages_and_without_a_number_do_not_count():
    curriculum = stages({}, {"keep": 0.5})
    curriculum.update(of(0, 1.0, 1.0), 10)
    curriculum.update(of(0, 1.0, 1.0, 1.0), 20)
    curriculum.update(of(1, nan, nan, 1.0), 30)
    assert curriculum.stage == 1
    curriculum.update(of(1, 1.0), 40)
    assert curriculum.stage == 2


def test_patience_counts_epochs_in_a_row_and_an_epoch_without_episodes_not_at_all():
    curriculum = stages(gate={"patience": 2})
    curriculum.update(of(0, 1.0, 1.0), 10)
    curriculum.update(of(0, -1.0), 20)  # the mean falls below: counting begins anew
    curriculum.update(of(0, 9.0), 30)
    assert curriculum.stage == 0
    curriculum.update(of(0), 40)
    assert curriculum.stage == 0
    curriculum.update(of(0, 1.0), 50)
    assert curriculum.stage == 1


def test_a_stage_lasts_its_min_steps():
    curriculum = stages({"min_steps": 50}, {"min_steps": 50})
    for steps, stage in ((10, 0), (40, 0), (50, 1), (60, 1), (99, 1), (100, 2)):
        curriculum.update(of(curriculum.stage, 1.0, 1.0), steps)
        assert curriculum.stage == stage, steps


def test_demotion_goes_back_and_the_window_begins_anew():
    curriculum = stages({}, {"demote_below": 0.0, "gate": {**GATE, "patience": 2}})
    curriculum.update(of(0, 1.0, 1.0), 10)
    curriculum.update(of(1, -1.0, -1.0), 20)
    assert curriculum.stage == 1
    (change,) = curriculum.update(of(1, -1.0), 30).changes
    assert (change.facts["why"], change.facts["value"], curriculum.stage) == ("demoted", -1.0, 0)
    assert curriculum.update(of(0, 1.0), 40).changes == ()
    curriculum.update(of(0, 1.0), 50)
    assert (curriculum.stage, curriculum.version) == (1, 3)


def test_earlier_stages_share_what_is_kept_for_them():
    curriculum = stages({"keep": 0.9}, {"keep": 0.2}, {"keep": 0.3})
    assert weights(curriculum) == [1, 0, 0]  # there is none before the first
    curriculum.update(of(0, 1.0, 1.0), 10)
    assert weights(curriculum) == [0.2, 0.8, 0]
    curriculum.update(of(1, 1.0, 1.0), 20)
    assert weights(curriculum) == [0.15, 0.15, 0.7]


def test_after_max_steps_the_stage_is_left_held_or_the_run_ends():
    curriculum = stages({"max_steps": 100}, {"max_steps": 100, "on_timeout": "hold"})
    assert curriculum.update(of(0), 99).changes == ()
    (change,) = curriculum.update(of(0), 100).changes
    assert (change.facts["why"], change.facts["value"], curriculum.stage) == ("timeout", None, 1)
    (change,) = curriculum.update(of(1), 200).changes
    assert (change.facts["why"], curriculum.stage, curriculum.version) == ("held", 1, 1)
    assert curriculum.update(of(1), 210).changes == ()  # once
    curriculum.update(of(1, 1.0, 1.0), 220)
    assert curriculum.stage == 2
    stopped = stages({"max_steps": 100, "on_timeout": "stop"})
    stopped.update(of(0, 0.5), 50)
    assert stopped.update(of(0), 100).failure == (
        "curriculum: stage 'a' was not passed within its max_steps=100: return is 0.5, at_least 1 is wanted;"
        " give it more steps, or make it easier"
    )


def test_the_last_stage_is_not_left():
    curriculum = stages({}, {}, {"max_steps": 5})
    for stage in range(2):
        curriculum.update(of(stage, 1.0, 1.0), 10 * (stage + 1))
    assert curriculum.stage == 2
    assert [change.facts["why"] for change in curriculum.update(of(2, 1.0), 40).changes] == ["held"]


def test_success_is_what_the_config_says_or_the_info():
    episodes = Episodes([1.0, 3.0, nan], [10, 30, 20], {"is_success": [0.0, 1.0, nan], "speed": [1.0, 2.0, 3.0]})
    by_return, by_speed = Measure(SuccessConfig(at_least=2)), Measure(SuccessConfig(metric="speed", at_least=2))
    assert by_return("success", episodes)[:2] == [0.0, 1.0]
    assert str(by_return("success", episodes)[2]) == "nan"
    assert by_speed("success", episodes) == [0.0, 1.0, 1.0]
    assert Measure()("success", episodes)[:2] == [0.0, 1.0]
    assert Measure()("length", episodes) == [10.0, 30.0, 20.0]


# -- annealing ---------------------------------------------------------------------------------------------------------


def test_ranges_move_with_the_share_of_the_run():
    cfg = AnnealConfig(start={"x": {"uniform": [0.0, 1.0]}}, end={"x": {"uniform": [-2.0, 5.0]}}, over=0.5)
    curriculum = Anneal(cfg, {}, planned_steps=1000)
    ranges, versions = [], []
    for steps in (0, 125, 250, 500, 1000):
        curriculum.update(Episodes(), steps)
        drawn = curriculum.draw
        ranges.append(drawn.components[0].params["x"])
        versions.append(drawn.version)
    assert ranges == [
        *(Uniform(0.0, 1.0), Uniform(-0.5, 2.0), Uniform(-1.0, 3.0)),
        *(Uniform(-2.0, 5.0), Uniform(-2.0, 5.0)),
    ]
    assert versions == [0, 1, 2, 3, 3]  # what does not change has no new version


def test_every_kind_moves_by_its_numbers():
    assert between(Constant(1.0), Constant(2.0), 0.25) == Constant(1.25)
    moved = between(LogUniform(1.0, 4.0), LogUniform(4.0, 64.0), 0.5)
    assert moved.range == pytest.approx((2.0, 16.0))
    assert between(LogUniform(1.0, 4.0), LogUniform(0.3, 0.7), 1.0) == LogUniform(0.3, 0.7)
    assert between(Normal(0.0, 1.0), Normal(1.0, sqrt(4)), 0.5) == Normal(0.5, 1.5)
    with pytest.raises(ValueError, match="cannot become"):
        between(Constant(1.0), Uniform(0.0, 1.0), 0.5)
