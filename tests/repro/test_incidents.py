"""Guardrails in a run: incidents are told, rolled back for, survive a checkpoint, and end a run with what to change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstudio.core.errors import Diverged, EnvFault
from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.changed_replay import BY_USER, EVENT, QUARANTINE
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.run.session import Session
from rlstudio.ops.optimizer import Optimizer
from support.experiments import tiny
from support.sessions import resume, start
from support.tiny_runs import assert_same_result, only_run

CKPT = {"every_seconds": None}


def incidents(run: RunFolder) -> list[dict[str, Any]]:
    return [event for event in run.events() if event["kind"] == "incident"]


def train(session: Session) -> RunFolder:
    with session:
        for _ in session:
            pass
    return session.folder


def test_a_learning_rate_far_too_high_ends_with_the_settings_that_heal_it(tmp_path: Path) -> None:
    cfg = tiny(train={"lr": 1.0, "passes": 4}, ckpt=CKPT)
    with pytest.raises(Diverged, match=r"no attempt of 4 went well; .* rate .*: set train.lr=0.0003$"):
        train(start(cfg, tmp_path / "bad"))
    run = only_run(tmp_path / "bad")
    first = incidents(run)[0]
    assert first["settings"] == ["train.lr=0.0003"]
    assert first["rule"] in ("weights", "kl", "entropy")
    assert [event["attempt"] for event in incidents(run)] == sorted(event["attempt"] for event in incidents(run))
    assert run.read_status().reason == "diverged"
    assert not incidents(train(start(tiny(train={"lr": 0.0003, "passes": 4}, ckpt=CKPT), tmp_path / "good")))


@pytest.fixture
def flips() -> Iterator[list[int]]:
    """The calls of the first optimizer at which a bit of its gradient flips; there are none until they are named."""
    calls: list[int] = []
    step = Optimizer.step

    def flipped(self: Optimizer, loss: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
        return step(self, loss * (1e12 if self.calls in calls else 1.0), *args, **named)

    Optimizer.step = flipped  # type: ignore[method-assign, assignment]
    yield calls
    Optimizer.step = step  # type: ignore[method-assign]


def replayed() -> ExperimentConfig:
    """16 updates per epoch."""
    train = {"epochs": 8, "train_every": 8, "gradient_steps": 2}
    return tiny("dqn", train=train, ckpt=CKPT, guardrails={"rollback_every_epochs": 2})


def test_a_broken_gradient_is_left_out_and_told(tmp_path: Path, flips: list[int]) -> None:
    flips.append(60)
    run = train(start(replayed(), tmp_path))
    (event,) = incidents(run)
    assert event["rule"] == "skipped"
    assert event["what"].startswith("1 updates were left out: their gradients were not finite and below ")
    assert run.read_status().state == RunState.COMPLETED
    assert "rolled_back" not in [event["kind"] for event in run.events()]


def test_what_was_seen_survives_a_checkpoint(tmp_path: Path, flips: list[int]) -> None:
    """The limit of the gradients is known from earlier updates; cut between them and the fault, the run must find the
    same. Without it this gradient would be learned from, since it is finite."""
    flips.append(60)
    whole = train(start(replayed(), tmp_path / "whole"))
    with start(replayed(), tmp_path / "cut") as session:
        for tick in session:
            if tick.gradient_steps == 57:
                break
    run = train(resume(only_run(tmp_path / "cut")))
    assert_same_result(run, whole)
    assert [event["what"] for event in incidents(run)] == [event["what"] for event in incidents(whole)]


def test_an_incident_that_waits_for_its_epoch_is_in_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlstudio.experiment.judging.update_watch.Q_ROOM", 1e-3)
    monkeypatch.setattr("rlstudio.experiment.judging.update_watch.SMALL_Q", 1e-3)
    length = {"epochs": 3, "steps_per_epoch": 160}  # the rewards are looked at for the first time after 122 steps
    cfg = tiny("dqn", train={**length, "train_every": 8, "gradient_steps": 2}, ckpt=CKPT)
    with start(cfg, tmp_path) as session:
        for _ in session:
            if session.guardrails.incident is not None:
                break
    assert session.guardrails.incident is not None
    with resume(only_run(tmp_path)) as again:
        assert again.guardrails.incident == session.guardrails.incident
        with pytest.raises(Diverged, match="sum up to"):
            for _ in again:
                pass


def test_a_rule_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstudio.experiment.judging.update_watch.Q_ROOM", 1e-3)
    monkeypatch.setattr("rlstudio.experiment.judging.update_watch.SMALL_Q", 1e-3)
    cfg = tiny("dqn", train={"epochs": 4}, ckpt=CKPT, guardrails={"ignore": ["q_scale"]})
    assert not incidents(train(start(cfg, tmp_path)))


def test_an_environment_that_hangs_ends_the_run_as_its_fault(tmp_path: Path) -> None:
    cfg = tiny(train={"epochs": 12, "steps_per_epoch": 128}, ckpt=CKPT, guardrails={"max_rollbacks": 1})
    with start(cfg, tmp_path) as session:
        env = session.runtime.env  # type: ignore[attr-defined]
        step = env.step

        def hanging(actions: np.ndarray) -> Any:
            given = step(actions)
            observations, successors = np.array(given.observations), np.array(given.successors)
            observations[1] = successors[1] = 0.5
            terminated, truncated = np.array(given.terminated), np.array(given.truncated)
            terminated[1] = truncated[1] = False
            return type(given)(observations, successors, given.rewards, terminated, truncated, given.infos)

        env.step = hanging
        with pytest.raises(
            EnvFault, match=r"env 1: shows the same for .* steps .*correct the environment.*rlctl check"
        ):
            for _ in session:
                pass
    run = only_run(tmp_path)
    assert run.read_status().reason == "env_fault"
    assert [event["rule"] for event in incidents(run)] == ["frozen_env", "frozen_env"]


def test_a_reward_beyond_all_measure_is_what_a_run_that_diverges_by_it_names(tmp_path: Path) -> None:
    """It is only reported, since rare rewards may be meant; but then no update is finite any more."""
    often = {"max_rollbacks": 1, "rollback_every_epochs": 1}  # to a point that knows what rewards are like
    cfg = tiny(train={"epochs": 24, "steps_per_epoch": 128}, ckpt=CKPT, guardrails=often)
    with start(cfg, tmp_path) as session:
        env, steps = session.runtime.env, [0]  # type: ignore[attr-defined]
        step = env.step

        def from_elsewhere(actions: np.ndarray) -> Any:
            given, steps[0] = step(actions), steps[0] + 1
            return given if steps[0] < 600 or steps[0] % 8 else given._replace(rewards=given.rewards + np.float32(1e38))

        env.step = from_elsewhere
        with pytest.raises(
            Diverged, match=r"the updates were skipped.* come from elsewhere.* guardrails.reward_range="
        ):
            for _ in session:
                pass
    assert incidents(only_run(tmp_path))[0]["rule"] == "reward_outliers"


@pytest.mark.parametrize("every", [1, 25])
def test_a_source_in_quarantine_stays_there_after_a_roll_back(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the user, who is not asked again: to a point that knew of it, and to the very beginning."""
    cfg = tiny("dqn", env={"num_envs": 2}, train={"epochs": 4}, ckpt=CKPT, guardrails={"rollback_every_epochs": every})
    with start(cfg, tmp_path) as session:
        for tick in session:
            if tick.report and tick.epoch == 2:
                break
    run = only_run(tmp_path)
    run.event(EVENT, action=QUARANTINE, source=1)
    run.close()
    judge, judged = Guardrails.judge, []

    def once(self: Guardrails, *args: Any) -> str | None:
        judged.append(args)
        return "made up" if len(judged) == 1 else judge(self, *args)

    monkeypatch.setattr(Guardrails, "judge", once)
    left: list[list[int]] = []
    with resume(run) as again:
        for _ in again:
            if again.attempt == 1 and not left:
                left.append([info.step for info in again.writer.checkpoints.list()])
        assert again.attempt == 1
        assert again.trainer.source.sources.quarantined == {1: BY_USER}  # type: ignore[attr-defined]
    (rolled,) = [event for event in run.events() if event["kind"] == "rolled_back"]
    assert max(left[0], default=0) == rolled["to_env_steps"]  # nothing of the way that was given up


def test_healthy_runs_have_no_incidents_and_no_limit_is_near(tmp_path: Path) -> None:
    for algo in ("a2c", "ppo", "dqn", "sac"):
        session = start(tiny(algo, train={"epochs": 12}, ckpt=CKPT), tmp_path / algo)
        assert not incidents(train(session)), algo
        limit = float(session.trainer.optimizer.limit)  # type: ignore[attr-defined]
        assert limit > 100.0 or limit == np.inf
