"""Behavioural cloning: its loss by hand, what it refuses, and that fifty episodes of an expert are enough."""

from __future__ import annotations

from math import log, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstudio.algos.bc import CloningConfig, cloning_loss
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Acted
from rlstudio.core.errors import Incompatible, UserError
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.datasets.minari_files import write_dataset
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.policy_value import PolicyOnly

OBSERVATION = Box((2,), "float32", (-1.0,), (1.0,))


def policy(action: Any) -> PolicyOnly:
    """Without hidden layers, so that outputs are W s + b."""
    model = PolicyOnly(Spaces(OBSERVATION, action), NetworkConfig(hidden_sizes=()), Rng(0))
    with torch.no_grad():
        model.policy_net.layers[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]])[: model.head.outputs])
        model.policy_net.layers[0].bias.zero_()
    return model


def test_choices_by_hand() -> None:
    """Logits are the observation: rows (0, log 3) and (log 4, 0), of which choice 1 and choice 1 were taken."""
    batch = Batch(observations=torch.tensor([[0.0, log(3)], [log(4), 0.0]]), actions=torch.tensor([1, 1]))
    loss, metrics = cloning_loss(policy(Discrete(2)), batch, CloningConfig(dataset="x"))
    assert float(loss.detach()) == pytest.approx(-(log(3 / 4) + log(1 / 5)) / 2)
    assert float(metrics["accuracy"]) == 0.5
    weighed = batch.with_(weights=torch.tensor([1.0, 0.0]))
    assert float(cloning_loss(policy(Discrete(2)), weighed, CloningConfig(dataset="x"))[0].detach()) == pytest.approx(
        -log(0.75)
    )


def test_numbers_by_hand() -> None:
    """Mean is the first number seen, the standard deviation 1: errors are 0.5 and -2."""
    model = policy(Box((1,), "float32", (-5.0,), (5.0,)))
    batch = Batch(observations=torch.tensor([[0.5, 9.0], [-1.0, 9.0]]), actions=torch.tensor([[1.0], [-3.0]]))
    loss, metrics = cloning_loss(model, batch, CloningConfig(dataset="x"))
    assert float(loss.detach()) == pytest.approx(0.5 * (0.25 + 4.0) / 2 + 0.5 * log(2 * pi))
    assert "accuracy" not in metrics
    assert float(cloning_loss(model, batch, CloningConfig(dataset="x", loss="mse"))[0].detach()) == pytest.approx(
        4.25 / 2
    )


class Balancer:
    """Pushes the cart under the pole: a linear rule that keeps CartPole up for ever."""

    def step(self, observations: np.ndarray, carry: Any = None, noise: Any = None) -> Acted:
        return Acted((observations @ np.array([0.5, 1.0, 10.0, 2.0]) > 0).astype(np.int64), {}, carry)


def experiment(dataset: str, env_id: str = "CartPole-v1", **fields: Any) -> ExperimentConfig:
    small = {"epochs": 4, "steps_per_epoch": 25_600, "batch_size": 256, "lr": 3e-3, "dataset": dataset}
    return experiment_from({"env": {"id": env_id}, "policy": {"algo": "bc"}, "train": {**small, **fields}})


@pytest.mark.learning
def test_fifty_episodes_of_an_expert_are_enough_for_cartpole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    cfg = experiment("cartpole/expert-v0")
    env = build_runtime(cfg)
    shown = recorded_episodes(Balancer(), cfg.env, episodes=50, seed=1, vectorization="native")  # type: ignore[arg-type]
    assert np.mean([episode.rewards.sum() for episode in shown]) >= 490
    write_dataset("cartpole/expert-v0", shown, env.spaces, None, algorithm="rule", code="", description="")
    trainer = build_trainer(cfg, env)
    reports = [tick.report for tick in train(trainer, cfg.train, Position()) if tick.report]
    assert [report.env_steps for report in reports] == [25_600, 51_200, 76_800, 102_400], "rows that were read"
    assert reports[-1].metrics["rollout/episodes"] == 0
    assert evaluate(trainer.agent, cfg.env, episodes=20, seed=7, vectorization="native").summary.mean >= 475


def test_an_agent_without_its_dataset_still_acts_but_cannot_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    cfg = experiment("nowhere-v0")
    trainer = build_trainer(cfg, build_runtime(cfg))
    assert trainer.agent.act(np.zeros(4, np.float32)) in (0, 1)
    with pytest.raises(UserError, match="there is no dataset nowhere-v0 here"):
        trainer.train_step()


def test_a_mean_of_choices_is_refused() -> None:
    cfg = experiment("any-v0", loss="mse")
    with pytest.raises(Incompatible, match=r"train.loss mse: needs numbers as actions; the env takes Discrete\(2\)"):
        build_trainer(cfg, build_runtime(cfg))
