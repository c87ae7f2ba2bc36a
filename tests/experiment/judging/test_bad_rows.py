"""Rows that are not finite: the first one is named to the number, and rewards that are no numbers make no return."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from rlstudio.core.errors import EnvFault
from rlstudio.core.spaces import Box
from rlstudio.envs.seeds import EpisodeNoise
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.config.judging import GuardrailsConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import Position, Report, train
from support.experiments import tiny
from support.sessions import start
from support.wearing_envs import register_wearing

SEED = 3


def worn_out(share: float, algo: str = "ppo") -> ExperimentConfig:
    """NaN in the first number of "state" and in the reward from step 36 of an object's second episode on, which is too
    late for the short trial by which a used object is found to differ from a fresh one."""
    register_wearing()
    kwargs = {"breaks": "old", "life": 75, "length": 40}
    env = {"id": "toys/Wearing-v0", "seed": SEED, "kwargs": kwargs, "vectorization": "sync"}
    evaluation = {"every_epochs": 0, "final_episodes": 1}
    return tiny(algo, env=env, guardrails={"max_bad_rows": share}, eval=evaluation, train={"epochs": 4})


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_the_first_bad_row_is_named_with_entry_env_seed_step_and_action(algo: str, tmp_path: Path) -> None:
    """Newcomer S2: the message had no entry, env, seed, step or action, which the exit code's page promises."""
    with pytest.raises(EnvFault) as raised, start(worn_out(0.01, algo=algo), tmp_path) as session:
        for _ in session:
            pass
    seed = EpisodeNoise(SEED, 1, 1).seed(0, 1)
    place = (
        rf"env 0, episode 1 \(seed {seed}\), step 36: observation 'state'\[0\] is nan and reward is nan; action [01]"
    )
    assert re.search(place, str(raised.value)), raised.value
    assert RunFolder(next(tmp_path.glob("2*"))).read_status().reason == "env_fault"


def test_returns_of_episodes_with_unusable_rewards_count_in_no_mean(tmp_path: Path) -> None:
    """Newcomer S2: with max_bad_rows=1 a broken run had the return 0, better than any real one."""
    with start(worn_out(1.0), tmp_path) as session:
        reports = [tick.report.metrics for tick in session if tick.report is not None]
    # Both envs end an episode in each of the epochs 2, 3 and 4, and only the first of them is a good one.
    assert [metrics["rollout/episodes"] for metrics in reports] == [0, 2, 2, 2]
    assert [metrics.get("rollout/episodes_without_return", 0) for metrics in reports] == [0, 0, 2, 2]
    assert [math.isnan(metrics["rollout/return_mean"]) for metrics in reports] == [True, False, True, True]
    events = [event for event in RunFolder(next(tmp_path.glob("2*"))).events() if event["kind"] == "bad_rows"]
    assert [event["episodes_without_return"] for event in events] == [2, 2]
    assert re.search(r"env 0, episode 2 \(seed \d+\), step 16: observation 'state'\[0\] is nan$", events[1]["first"])


def test_good_episodes_beside_bad_ones_keep_their_returns() -> None:
    built = build(worn_out(1.0))
    try:
        collector = built.trainer.source.collector  # type: ignore[attr-defined]
        collector.collect(200)
        returns, lengths, _ = collector.inspection.episodes.take()
    finally:
        built.close()
    assert lengths[:4] == [40] * 4
    assert [math.isnan(value) for value in returns[:4]] == [False, False, True, True]


def test_a_checkpoint_keeps_the_first_bad_row_until_it_is_reported() -> None:
    first, second = build(worn_out(1.0)), build(worn_out(1.0))
    try:
        first.trainer.source.next()
        before = first.trainer.source.state_dict()
        assert "bad_row" not in before["collector"]
        for _ in range(2):
            first.trainer.source.next()
        state = first.trainer.source.state_dict()
        second.trainer.source.load_state_dict(state)
        assert state["collector"]["bad_row"] == second.trainer.source.take().bad_row
        assert "bad_row" not in second.trainer.source.state_dict()["collector"]
    finally:
        first.close()
        second.close()


def test_good_runs_have_no_new_metrics() -> None:
    built, position = build(tiny()), Position()
    try:
        reports = [tick.report for tick in train(built.trainer, tiny().train, position) if tick.report is not None]
    finally:
        built.close()
    assert all(report.bad_row is None and "rollout/episodes_without_return" not in report.metrics for report in reports)


@pytest.mark.parametrize(
    ("share", "percent", "limit"), [(0.023, "2.3%", "1.0%"), (0.0101, "1.01%", "1.00%"), (0.01001, "1.001%", "1.000%")]
)
def test_the_share_has_enough_digits_to_be_more_than_its_limit(share: float, percent: str, limit: str) -> None:
    """Newcomer S2: "1.0% ... more than 1.0%"."""
    report = Report(1, 64, 1, {"guard/bad_row_share": share, "guard/skipped_share": 0.0}, {"rewards": 5, "actions": 0})
    with pytest.raises(EnvFault, match=f"^{percent} of epoch 1's rows .* more than guardrails.max_bad_rows = {limit};"):
        Guardrails(GuardrailsConfig(max_bad_rows=0.01)).judge(report, trainer=None)  # type: ignore[arg-type]


def test_numbers_far_outside_an_image_like_space_have_their_whole_index() -> None:
    import numpy as np

    from rlstudio.data.checks.range_watch import RangeWatch

    block = np.zeros((1, 1, 2, 3), np.float32)
    block[0, 0, 1, 2] = 1e6
    watch = RangeWatch(Box((2, 3), "float32", (0,), (1,)))
    assert watch.look(block) == (0, 0, "observation[1, 2] is 1e+06, its space says 0 to 1")
