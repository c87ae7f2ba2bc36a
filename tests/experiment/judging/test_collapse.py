"""Training that went wrong with finite numbers is noticed, and healthy training never is."""

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.core.spaces import Box, Discrete
from rlstudio.experiment.judging.collapse import GROWTH, WINDOW, CollapseWatch
from support.experiments import tiny
from support.sessions import resume, start
from support.tiny_runs import only_run

BAD = {
    "ppo": {"lr": 10.0},
    "dqn": {"lr": 5.0, "steps_per_epoch": 256, "train_every": 8, "gradient_steps": 1, "epsilon_fraction": 0.3},
}


class Weights:
    """As much of a Trainer as the watch asks."""

    rms = 0.2

    def weight_rms(self) -> float:
        return self.rms


def watch(returns, entropies=(), growth: float = 1.0, actions=None) -> str | None:
    weights = Weights()
    watched = CollapseWatch(weights, Discrete(2) if actions is None else actions)  # type: ignore[arg-type]
    weights.rms *= growth
    for epoch, value in enumerate(returns):
        watched.add({"rollout/return_mean": value, **({"train/entropy": entropies[epoch]} if entropies else {})})
    return watched.reason


@pytest.mark.parametrize("algo", BAD)
def test_row_58_a_learning_rate_that_ruins_a_run_with_finite_numbers_is_noticed(algo, tmp_path):
    rails = {"ignore": ["weights", "kl", "q_scale", "entropy", "spike"]}  # they would have stopped it long before
    ckpt = {"every_seconds": None, "every_epochs": 6}
    cfg = tiny(algo, train={**BAD[algo], "epochs": 16}, ckpt=ckpt, guardrails=rails)
    with start(cfg, tmp_path) as session:
        for tick in session:
            if tick.epoch == 13:
                break
    run = only_run(tmp_path)
    (event,) = [event for event in run.events() if event["kind"] == "collapsed"]
    assert "lower train.lr" in event["reason"]
    with resume(run) as session:
        assert session.collapse.reason is not None  # known before another epoch is over
        for _ in session:
            pass
    status = run.read_status()
    assert (status.state, status.reason) == (RunState.COMPLETED, "collapsed")
    assert status.message.startswith("collapsed: the weights are ")


@pytest.mark.parametrize("algo", ["a2c", "ppo", "dqn", "qrdqn", "sac", "td3"])
def test_row_58_a_healthy_run_is_not_marked(algo, tmp_path):
    with start(tiny(algo, train={"epochs": 2 * WINDOW}), tmp_path) as session:
        for _ in session:
            assert session.collapse.reason is None
    assert only_run(tmp_path).read_status().reason == ""


def test_weights_that_grew_are_no_collapse_while_the_return_rises():
    rising = [10.0 * epoch for epoch in range(1, 9)]
    assert watch(rising, growth=100) is None
    assert watch([10.0] * 9, growth=GROWTH + 1) is not None
    assert watch([10.0] * 9, growth=GROWTH - 1) is None


def test_a_policy_without_entropy_is_a_collapse_only_where_the_return_fell():
    solved, ruined = [20.0, *[500.0] * 8], [20.0, *[500.0] * 6, *[9.4] * WINDOW]
    assert watch(solved, [0.6, *[1e-5] * 8]) is None
    assert watch(ruined, [0.6] * len(ruined)) is None
    assert watch(ruined, [1e-5] * len(ruined)) == (
        "collapsed: the policy always does the same (entropy 1e-05), and the return is 9.4, after 500 before;"
        " lower train.lr"
    )
    numbers = Box((1,), "float32", (-1.0,), (1.0,))
    assert watch(ruined, [-9.0] * len(ruined), actions=numbers) is None  # of numbers it may be anything


def test_a_run_that_recovers_is_marked_no_longer():
    there_and_back = [20.0, *[500.0] * 6, *[9.4] * WINDOW, *[500.0] * WINDOW]
    assert watch(there_and_back, [1e-5] * len(there_and_back)) is None


def test_epochs_in_which_no_episode_ended_say_nothing():
    assert watch([float("nan")] * 20, [1e-9] * 20, growth=1e6) is None
