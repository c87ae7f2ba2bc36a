"""Runs with `env.infos`: the column in what is learned from, success rates among the metrics, and exact resume."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

from rlstudio.core.contracts import Acted
from rlstudio.envs.config import METRIC_NAMES, EnvConfig
from rlstudio.experiment.judging.evaluate import Evaluation, evaluate
from rlstudio.experiment.metrics.reader import read_metrics
from support.env_toys import register_toys
from support.experiments import tiny
from support.sessions import start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end

ERRANDS = {"id": "toys/Errand-v0", "infos": ["is_success", "ones", "elsewhere"]}


@pytest.fixture(autouse=True)
def _toys() -> None:
    register_toys()


def errands(algo: str, **env: object):
    return tiny(
        algo,
        env={**ERRANDS, **env},
        train={"epochs": 4, **({"rollout_steps": 8, "batch_size": 16} if algo == "ppo" else {})},
        eval={"every_epochs": 2, "episodes": 3},
        ckpt={"every_seconds": None, "every_epochs": 1},
    )


def test_the_metric_of_an_epoch_is_the_mean_of_its_episodes(tmp_path) -> None:
    """PPO sees every row once, so its rollouts are the whole count."""
    with start(errands("ppo"), tmp_path) as session:
        successes, ones, reports = [], [], []
        for tick in session:
            rollout = session.trainer.source.last
            successes += rollout.info["is_success"][rollout.dones].tolist()
            ones += rollout.info["ones"][rollout.dones].tolist()
            if tick.report is not None:
                reports.append(tick.report.metrics)
                assert tick.report.metrics["rollout/episodes"] == len(successes) > 3
                assert tick.report.metrics["rollout/is_success"] == pytest.approx(np.mean(successes))
                assert tick.report.metrics["rollout/ones"] == pytest.approx(np.mean(ones))
                assert np.isnan(tick.report.metrics["rollout/elsewhere"])
                successes, ones = [], []
    assert len(reports) == 4
    recorded = {record.key for record in read_metrics(session.folder.path)}
    assert {"rollout/is_success", "rollout/ones", "eval/is_success", "eval/ones"} <= recorded


def test_the_samples_of_dqn_carry_the_columns(tmp_path) -> None:
    with start(errands("dqn"), tmp_path) as session:
        for _ in session:
            sample = session.trainer.source.last
            taken, ones = sample.next_observations.unbind(-1)
            assert torch.equal(sample.info["ones"], ones)
            given = ~sample.info["is_success"].isnan()
            assert torch.equal(given, sample.dones)
            assert torch.equal(sample.info["is_success"][given], (2 * ones > taken).float()[given])
            assert sample.info["elsewhere"].isnan().all()


@pytest.mark.parametrize(
    ("algo", "vectorization"),
    [("ppo", "sync"), pytest.param("dqn", "sync", marks=pytest.mark.slow), ("dqn", "async")],
)
def test_a_run_cut_inside_an_epoch_goes_on_bit_for_bit(algo: str, vectorization: str, tmp_path) -> None:
    cfg = errands(algo, vectorization=vectorization)
    whole = run_to_the_end(cfg, tmp_path / "whole")
    with start(cfg, tmp_path / "left") as session:
        for number, tick in enumerate(session):
            episodes = session.trainer.source.collector.inspection.episodes
            open_numbers = ~np.isnan(episodes.infos["ones"].open)
            if number > 2 and tick.report is None and episodes.returns and open_numbers.any():
                break
        else:
            pytest.fail("the run was never inside an epoch")
    run_to_the_end(cfg, tmp_path / "left")
    assert_same_result(only_run(tmp_path / "left"), whole)


def test_learning_does_not_depend_on_the_infos(tmp_path) -> None:
    """The same weights and the same metrics, but for those of the keys."""
    with_infos, without = (
        run_to_the_end(errands("dqn", infos=infos), tmp_path / str(len(infos))) for infos in (ERRANDS["infos"], [])
    )
    records = [
        {(r.step, r.key, tuple(r.tags)): repr(r.value) for r in read_metrics(run.path) if "clock" not in r.tags}
        for run in (with_infos, without)
    ]
    extra = records[0].keys() - records[1].keys()
    assert {key.partition("/")[2] for _, key, _ in extra} <= set(ERRANDS["infos"])
    assert {name: records[0][name] for name in records[1]} == records[1]


# -- evaluation --------------------------------------------------------------------------------------------------------


class Hesitant:
    """Takes action 1 at every second step: more often than not in episodes of an odd number of steps."""

    def step(self, observations, carry=None, noise=None) -> Acted:
        return Acted((observations[:, 0] % 2 == 0).astype(np.int64), {}, None)


def by_hand(evaluation: Evaluation) -> dict[str, list[float]]:
    """The same episodes in plain Gymnasium envs."""
    counted: dict[str, list[float]] = {"is_success": [], "ones": []}
    for seed in evaluation.seeds:
        env = gymnasium.make("toys/Errand-v0")
        (observation, _), ended = env.reset(seed=seed), False
        while not ended:
            observation, _, ended, _, info = env.step(int(observation[0] % 2 == 0))
        counted["is_success"].append(float(info["is_success"]))
        counted["ones"].append(float(info["ones"]))
    return counted


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_the_success_rate_of_an_evaluation_is_a_hand_count(vectorization) -> None:
    result = evaluate(Hesitant(), EnvConfig(**ERRANDS), episodes=37, seed=5, vectorization=vectorization)
    expected = by_hand(result)
    assert {key: list(values) for key, values in result.infos.items() if key != "elsewhere"} == expected
    assert np.isnan(result.infos["elsewhere"]).tolist() == [True] * 37
    metrics = result.metrics()
    assert metrics["eval/is_success"] == pytest.approx(sum(expected["is_success"]) / 37)
    assert 0 < metrics["eval/is_success"] < 1
    assert np.isnan(metrics["eval/elsewhere"])
    again = evaluate(Hesitant(), EnvConfig(**ERRANDS), episodes=37, seed=5, vectorization=vectorization)
    assert again == result


def test_every_name_that_a_run_uses_itself_is_refused_as_a_key(tmp_path) -> None:
    with start(tiny(eval={"every_epochs": 1, "episodes": 2}), tmp_path) as session:
        for _ in session:
            pass
    keys = [record.key.partition("/") for record in read_metrics(session.folder.path)]
    assert {name for group, _, name in keys if group in ("rollout", "eval")} == set(METRIC_NAMES)
