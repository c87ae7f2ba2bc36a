"""What an epoch measures besides learning: health of the data, where the time went, what the process used."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.host.phases import PHASES
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.data.replay.health import replay_health
from rlstudio.experiment.training import epoch_clock
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.epoch_clock import EpochClock
from rlstudio.experiment.training.loop import Position, train
from support.tiny_runs import config

HEALTH = {"data/replay_fill", "data/replay_age", "data/duplicate_share", "train/epsilon"}
SHARES = {f"time/{phase}_share" for phase in ("collect", "update", "evaluate", "checkpoint")}
LATENCIES = {f"time/{what}_ms_p{p}" for what in ("step", "update") for p in (50, 95, 99)}


def test_the_health_of_a_replay_in_closed_form() -> None:
    """Six rows of two environments in a buffer of eight; the observations of the last two rows are the same."""
    spaces = Spaces(Box((1,), "float32", (-9.0,), (9.0,)), Discrete(2))
    replay = ReplayBuffer(spaces, capacity=8, num_envs=2)
    assert replay_health(replay, None) == {"data/replay_fill": 0.0}
    values = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]])
    zeros = torch.zeros(3, 2)
    replay.add(
        Batch(
            lead=2,
            observations=values[..., None],
            next_observations=values[..., None] + 1,
            actions=torch.zeros(3, 2, dtype=torch.int64),
            rewards=zeros,
            terminated=zeros.bool(),
            truncated=zeros.bool(),
        )
    )
    health = replay_health(replay, replay.at(np.array([0, 3, 4, 5, 5])))
    assert health["data/replay_fill"] == 6 / 8
    assert health["data/replay_age"] == pytest.approx(np.mean([5, 2, 1, 0, 0]))
    assert health["data/duplicate_share"] == 1 / 4  # of the rows 0, 3, 4 and 5, the last two are the same


def test_shares_and_percentiles_in_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four train steps of 10, 20, 30 and 40 ms, each with 5 ms of collecting, in a second."""
    now = [100.0]
    monkeypatch.setattr(epoch_clock.time, "perf_counter", lambda: now[0])
    clock = EpochClock()
    for seconds in (0.01, 0.02, 0.03, 0.04):
        clock.start()
        now[0] += seconds
        PHASES.collect += 0.005
        clock.stop()
    PHASES.evaluate += 0.5
    now[0] = 101.0
    metrics = clock.take()
    assert {name: metrics[name] for name in SHARES} == pytest.approx(
        {
            "time/collect_share": 0.02,
            "time/update_share": 0.08,
            "time/evaluate_share": 0.5,
            "time/checkpoint_share": 0.0,
        }
    )
    assert (metrics["time/step_ms_p50"], metrics["time/update_ms_p50"]) == pytest.approx((25.0, 20.0))
    now[0] += 1
    assert math.isnan(clock.take()["time/step_ms_p50"])  # no train step in it, as while a replay fills


def test_a_run_reports_all_of_it() -> None:
    cfg = config("dqn", "native")
    runtime = build_runtime(cfg)
    trainer = build_trainer(cfg, runtime)
    ticks = train(trainer, cfg.train, Position())
    reports = list(itertools.islice((tick.report for tick in ticks if tick.report), 2))
    runtime.close()
    first, second = reports
    assert set(first.metrics) >= HEALTH
    assert first.metrics["data/replay_fill"] == 128 / 512
    assert second.metrics["data/replay_fill"] == 256 / 512
    assert 0 < second.metrics["train/epsilon"] <= first.metrics["train/epsilon"] <= 1
    assert set(second.clock) == SHARES | LATENCIES | {"system/cpu_share", "system/rss_mb"}
    assert 0 < sum(second.clock[name] for name in SHARES) <= 1
    assert second.clock["system/rss_mb"] > 10


def test_on_policy_runs_have_no_replay_to_report() -> None:
    cfg = config("ppo", "native")
    runtime = build_runtime(cfg)
    trainer = build_trainer(cfg, runtime)
    report = next(tick.report for tick in train(trainer, cfg.train, Position()) if tick.report)
    runtime.close()
    assert not HEALTH & set(report.metrics)
    assert set(report.clock) >= SHARES
