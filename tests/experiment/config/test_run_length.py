"""How long a run is: whole epochs of whole rollouts, and one line where that is not what was asked for."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.config import to_yaml
from rlstudio.core.errors import ConfigError, Notice
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from


def made(*overrides: str, algo: str = "ppo", num_envs: int = 4, **train: Any) -> ExperimentConfig:
    if algo == "ppo":
        train.setdefault("batch_size", 32)
    data = {"env": {"id": "CartPole-v1", "num_envs": num_envs}, "policy": {"algo": algo}, "train": train}
    return experiment_from(data, overrides=overrides)


def notice_of(**given_settings: Any) -> str:
    with pytest.warns(Notice) as raised:
        made(**given_settings)
    (warning,) = raised
    return str(warning.message)


@given(
    st.integers(1, 10**6),
    st.one_of(st.none(), st.integers(1, 10**5)),
    st.integers(1, 50),
    st.sampled_from(["ppo", "dqn"]),
)
def test_total_steps_are_reached_by_whole_epochs_of_whole_rollouts(
    total: int, per_epoch: int | None, num_envs: int, algo: str
) -> None:
    """And not by more than one rollout an epoch, or one epoch where its length is given."""
    settings = {"total_steps": total} | ({} if per_epoch is None else {"steps_per_epoch": per_epoch})
    if algo == "ppo":
        settings |= {"rollout_steps": 8, "batch_size": 8}
    else:
        settings |= {"learning_starts": 1} if total > 1 else {"learning_starts": 1, "total_steps": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        train = made(algo=algo, num_envs=num_envs, **settings).train
    total, rollout = settings["total_steps"], (8 if algo == "ppo" else 1) * num_envs
    assert train.total_steps is None
    assert train.steps_per_epoch % rollout == 0
    assert train.planned_steps >= total
    slack = train.epochs * rollout + (train.epochs if per_epoch is None else per_epoch)
    assert train.planned_steps < total + slack


def test_what_comes_out_even_is_left_alone_and_said_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made(total_steps=8192, steps_per_epoch=2048, rollout_steps=32).train.epochs == 4
        cfg = made(epochs=3, steps_per_epoch=256, rollout_steps=32, batch_size=64)
    assert (cfg.train.epochs, cfg.train.steps_per_epoch) == (3, 256)


def test_s3_rounding_is_said_in_one_line_and_never_refused() -> None:
    settings = {"epochs": 2, "steps_per_epoch": 2048, "rollout_steps": 32}
    text = "rounded up to whole rollouts of 32 x 3 steps: 2 epochs of 2,112 steps, 4,224 in all"
    assert notice_of(num_envs=3, **settings) == f"train.steps_per_epoch=2048 is {text}"
    told = notice_of(algo="dqn", num_envs=3, total_steps=5000, learning_starts=100)
    assert (
        told
        == "train.total_steps=5000 is rounded up to whole steps of 3 environments: 1 epoch of 5,001 steps, 5,001 in all"
    )


def test_the_stored_config_has_whole_epochs_and_reads_back_the_same() -> None:
    with pytest.warns(Notice):
        cfg = made(num_envs=3, total_steps=10_000, rollout_steps=16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = experiment_from(read_text(to_yaml(cfg), "f"), stored=True)
    assert again == cfg


def test_an_override_counts_more_than_the_file_whichever_of_the_two_it_gives() -> None:
    assert made("train.total_steps=8192", epochs=48, steps_per_epoch=2048, rollout_steps=32).train.epochs == 4
    assert made("train.epochs=3", total_steps=8192, steps_per_epoch=2048, rollout_steps=32).train.epochs == 3
    with pytest.raises(ConfigError, match="epochs is given too; leave one of them out"):
        made("train.total_steps=8192", "train.epochs=3")
