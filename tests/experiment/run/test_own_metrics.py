"""Numbers that a user's own code logs become metrics of the run."""

import pytest

import rlstudio
from rlstudio.core.errors import RLStudioError, UserError
from rlstudio.core.own_metrics import OwnMetrics
from rlstudio.experiment.metrics.indexed.index import read_series
from support.env_toys import register_toys
from support.experiments import tiny
from support.sessions import start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end


def experiment(vectorization: str = "sync", **sections):
    register_toys()
    env = {"id": "toys/Logging-v0", "vectorization": vectorization}
    return tiny(env=env, eval={"every_epochs": 1, "episodes": 3}, tracking={"sinks": ["csv"]}, **sections)


def test_what_an_environment_logs_is_the_mean_of_the_epoch_and_evaluations_are_left_out(tmp_path):
    """Newcomer: there was no way to log a metric of one's own. Two environments of 32 steps: four whole episodes of
    seven and a rest of four steps each; evaluations play whole episodes only, whose mean is 4."""
    run = run_to_the_end(experiment(guardrails={"limits": {"own/age": 100, "own/never": 1}}), tmp_path)
    steps, values = read_series(run.path)["own/age"]
    assert steps == [64, 128, 192]
    assert values[0] == pytest.approx((4 * 28 + 10) / 32)
    assert "own/age" in (run.path / "artifacts/metrics.csv").read_text()


def test_a_run_that_goes_on_within_an_epoch_reports_the_same_means(tmp_path):
    cfg = experiment(train={"rollout_steps": 8, "batch_size": 16})
    whole = run_to_the_end(cfg, tmp_path / "whole")
    with start(cfg, tmp_path / "stopped") as session:
        for tick in session:
            if tick.env_steps > 64 and tick.report is None:
                break
    assert_same_result(run_to_the_end(cfg, tmp_path / "stopped"), whole)


def test_a_limit_on_an_own_metric_is_kept(tmp_path):
    with pytest.raises(RLStudioError, match=r"own/age is 3\.8.*, beyond guardrails\.limits \(3\)"):
        run_to_the_end(experiment(guardrails={"limits": {"own/age": 3}, "max_rollbacks": 0}), tmp_path)


def test_the_loop_over_a_session_can_log_too(tmp_path):
    with start(tiny(), tmp_path) as session:
        for tick in session:
            rlstudio.log("mine/epoch", tick.epoch)
    assert read_series(only_run(tmp_path).path)["own/mine/epoch"] == ([128, 192], [1.0, 2.0])


@pytest.mark.real_process
def test_from_a_worker_process_it_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(RLStudioError, match=r"rlstudio\.log\('age'\): does not reach the run .* env\.infos"):
        run_to_the_end(experiment("async"), tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("a b", 1.0, "a name is letters"),
        ("a/", 1.0, "a name is letters"),
        (3, 1.0, "a name is letters"),
        ("a", "much", "expected a number, got 'much'"),
        ("a", None, "expected a number, got None"),
    ],
)
def test_what_is_no_metric_is_refused(name, value, reason):
    with pytest.raises(UserError, match=reason):
        OwnMetrics().log(name, value)


def test_there_is_an_end_to_names():
    own = OwnMetrics()
    for index in range(256):
        own.log(f"n{index}", 1.0)
    own.log("n0", 3.0)
    with pytest.raises(UserError, match="more than 256 names"):
        own.log("one_more", 1.0)
    assert own.take()["own/n0"] == 2.0
    assert own.take() == {}
