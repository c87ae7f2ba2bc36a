"""Gates: which evaluations miss, when misses end a run, and that the count survives a checkpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.contracts import Stateful
from rlstudio.core.errors import GateFailed
from rlstudio.experiment.config.judging import GatesConfig as Rules
from rlstudio.experiment.judging.gates import Gates
from rlstudio.ops.statistics import Summary

NAN = float("nan")


def summary(mean: float = 100.0, low: float = 90.0, std: float = 5.0, n: int = 10) -> Summary:
    return Summary(n=n, mean=mean, std=std, median=mean, iqm=mean, ci_low=low, ci_high=mean, min=low, max=mean)


@pytest.mark.parametrize(
    ("rules", "evaluation", "named"),
    [
        (Rules(), summary(mean=-1e9), []),
        (Rules(min_return=100), summary(mean=100.0), []),  # reaching it is enough
        (Rules(min_return=100), summary(mean=99.999), ["min_return"]),
        (Rules(min_return=100), summary(mean=NAN), ["min_return"]),
        (Rules(min_lower_bound=90), summary(low=90.0), []),
        (Rules(min_lower_bound=90), summary(mean=1e6, low=89.0), ["min_lower_bound"]),  # a lucky mean does not help
        (Rules(min_lower_bound=90), summary(low=NAN), ["min_lower_bound"]),
        (Rules(min_lower_bound=90), summary(low=100.0, n=1), ["min_lower_bound"]),
        (Rules(max_std=5), summary(std=5.0), []),
        (Rules(max_std=5), summary(std=5.1), ["max_std"]),
        (Rules(max_std=5), summary(std=NAN), ["max_std"]),
        (
            Rules(min_return=200, min_lower_bound=200, max_std=1),
            summary(),
            ["min_return", "min_lower_bound", "max_std"],
        ),
    ],
)
def test_rules(rules: Rules, evaluation: Summary, named: list[str]) -> None:
    verdict = Gates(rules).judge(1, evaluation)
    final = Gates(rules).judge_final(1, evaluation)
    assert verdict.passed is final.passed is (not named)
    assert verdict.failed is final.failed is bool(named)
    assert len(verdict.reasons) == (len(named) + 1 if named else 0)
    for rule, reason in zip(named, verdict.reasons, strict=False):
        assert f"gates.{rule}" in reason


@pytest.mark.parametrize(
    ("warmup", "patience", "means", "failed"),
    [
        (0, 1, [0], [True]),
        (0, 3, [0, 0, 0], [False, False, True]),
        (0, 2, [0, 10, 0, 0], [False, False, False, True]),  # a pass starts the count afresh
        (2, 1, [0, 0, 0], [False, False, True]),
        (2, 2, [0, 0, 0, 0], [False, False, False, True]),  # misses of the warm-up are not counted
        (9, 1, [0, 0, 0], [False, False, False]),
    ],
)
def test_warmup_and_patience(warmup: int, patience: int, means: list[float], failed: list[bool]) -> None:
    gates = Gates(Rules(min_return=5, warmup_epochs=warmup, patience=patience))
    assert [gates.judge(epoch, summary(mean=m)).failed for epoch, m in enumerate(means, start=1)] == failed


def test_messages_carry_the_numbers() -> None:
    verdict = Gates(Rules(min_return=475, patience=2)).judge(7, summary(mean=212.4, n=20))
    assert verdict.reasons == (
        "mean return 212.4 over 20 episodes is below gates.min_return=475",
        "epoch 7: miss 1 of 2 in a row",
    )
    verdict.enforce()
    with pytest.raises(GateFailed, match=r"212\.4 over 20 episodes.*475.*epoch 9: final evaluation"):
        Gates(Rules(min_return=475)).judge_final(9, summary(mean=212.4, n=20)).enforce()


def test_final_verdict_knows_neither_warmup_nor_patience_and_changes_nothing() -> None:
    gates = Gates(Rules(min_return=5, warmup_epochs=100, patience=100))
    assert gates.judge_final(3, summary(mean=0.0)).failed
    assert gates.state_dict() == {"misses": 0}
    assert gates.judge_final(3, summary(mean=5.0)).passed


def test_active_only_with_a_rule() -> None:
    assert not Gates(Rules(patience=3)).active
    assert Gates(Rules(max_std=0.0)).active


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 10), st.integers(1, 5))
def test_fails_exactly_after_patience_misses_in_a_row(good: list[bool], warmup: int, patience: int) -> None:
    gates = Gates(Rules(min_return=1, warmup_epochs=warmup, patience=patience))
    counted: list[bool] = []
    for epoch, passes in enumerate(good, start=1):
        verdict = gates.judge(epoch, summary(mean=1.0 if passes else 0.0))
        counted += [passes] if epoch > warmup else []
        assert verdict.passed is passes
        assert verdict.failed is (len(counted) >= patience and not any(counted[-patience:]))


@given(st.lists(st.booleans(), min_size=2, max_size=20), st.data())
def test_state_travels_through_json(good: list[bool], data: st.DataObject) -> None:
    """Stopping after any evaluation and going on elsewhere gives the verdicts of the uninterrupted run."""
    rules = Rules(min_return=1, warmup_epochs=1, patience=3)
    evaluations = [(epoch, summary(mean=float(passes))) for epoch, passes in enumerate(good, start=1)]
    cut = data.draw(st.integers(0, len(good)))
    whole, before, after = Gates(rules), Gates(rules), Gates(rules)
    assert isinstance(before, Stateful)
    expected = [whole.judge(*e) for e in evaluations]
    verdicts = [before.judge(*e) for e in evaluations[:cut]]
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert verdicts + [after.judge(*e) for e in evaluations[cut:]] == expected


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, NAN]), max_size=20), st.integers(1, 4), st.data())
def test_the_goal_is_reached_exactly_after_enough_hits_in_a_row(
    means: list[float], needed: int, data: st.DataObject
) -> None:
    """Also where a checkpoint lies between them. An evaluation that breaks a rule is no hit, however high."""
    rules = Rules(stop_at=1, stop_after=needed, max_std=1, patience=1000)
    gates, spread = Gates(rules), data.draw(st.lists(st.booleans(), min_size=len(means), max_size=len(means)))
    hits: list[bool] = []
    for epoch, (mean, wide) in enumerate(zip(means, spread, strict=True), start=1):
        gates.judge(epoch, summary(mean=mean, std=2.0 if wide else 0.5))
        hits.append(mean >= 1 and not wide)
        assert gates.goal_reached() is (len(hits) >= needed and all(hits[-needed:]))
        later = Gates(rules)
        later.load_state_dict(json.loads(json.dumps(gates.state_dict())))
        assert later.goal_reached() is gates.goal_reached()
        gates = later


def test_without_a_goal_nothing_is_counted_or_kept() -> None:
    gates = Gates(Rules())
    gates.judge(1, summary(mean=1e9))
    assert not gates.goal_reached()
    assert gates.state_dict() == {"misses": 0}
    assert gates.completion(1, 2) is None


def test_a_goal_reached_with_the_last_epoch_is_an_ordinary_end() -> None:
    gates = Gates(Rules(stop_at=1, stop_after=2))
    for epoch in (1, 2):
        gates.judge(epoch, summary())
    assert gates.completion(2, 2) is None
    text = "reached gates.stop_at=1 in 2 evaluations in a row after 2 of 9 epochs"
    assert gates.completion(2, 9) == ("goal", text)
