"""Diffusion: its loss by hand and against a slow reference, its data, what acts, and that planning with it works."""

from __future__ import annotations

from math import cos, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstudio.agents.planning import PlanningAgent
from rlstudio.algos.diffusion import Diffusion, diffusion_loss
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Place
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.collect.explore import RandomShare
from rlstudio.data.datasets.minari_files import write_dataset
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train
from rlstudio.models.config import NetworkConfig
from rlstudio.models.planning.denoiser import TrajectoryModel
from rlstudio.planners.diffusion import DiffusionPlanner, DiffusionPlannerConfig
from support.experiments import tiny

OBSERVATION = Box((2,), "float32", (-1.0,), (1.0,))
FORCE = Box((1,), "float32", (-2.0,), (2.0,))


def build(env_id: str = "Pendulum-v1", num_envs: int = 4, seed: int = 1, **fields: Any) -> Diffusion:
    small = {
        "epochs": 3,
        "steps_per_epoch": 200,
        "learning_starts": 80,
        "train_every": 40,
        "gradient_steps": 4,
        "planner": {"horizon": 5, "candidates": 8, "levels": 3},
    }
    env, network = {"id": env_id, "num_envs": num_envs, "seed": seed}, {"hidden_sizes": [16]}
    cfg = tiny("diffusion", env=env, policy={"network": network}, train={**small, **fields}, buffer={"capacity": 400})
    trainer = build_trainer(cfg, build_runtime(cfg))
    assert isinstance(trainer, Diffusion)
    return trainer


class Constant(TrajectoryModel):
    """Always guesses 0.5."""

    def forward(self, x: torch.Tensor, times: torch.Tensor, observations: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, 0.5)


def windows(actions: list[list[float]], weights: list[list[float]]) -> Batch:
    """[H, N] of forces between -2 and 2."""
    shape = (len(actions), len(actions[0]))
    return Batch(
        lead=2,
        observations=torch.arange(2.0 * shape[0] * shape[1]).view(*shape, 2) / 10,
        actions=torch.tensor(actions).unsqueeze(-1),
        weights=torch.tensor(weights),
    )


def test_the_loss_by_hand() -> None:
    """Forces 2, -1 (then over) and 0, 1 are 1, -0.5, 0 and 0.5 of the bounds; the guess is 0.5 everywhere."""
    model = Constant(Spaces(OBSERVATION, FORCE), NetworkConfig(hidden_sizes=()), Rng(0), horizon=2)
    batch = windows([[2.0, 0.0], [-1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]])
    loss, metrics = diffusion_loss(model, batch, torch.tensor([0.3, 0.6]), torch.zeros(2, 2, 1))
    assert float(loss) == pytest.approx((0.25 + 0.25 + 0.0) / 3)
    assert float(metrics["loss"]) == float(loss)


@pytest.mark.parametrize("action", [FORCE, Discrete(3)], ids=["numbers", "choices"])
def test_the_loss_is_that_of_a_slow_reference(action: Any) -> None:
    steps, rows = 4, 6
    generator = np.random.default_rng(0)
    model = TrajectoryModel(Spaces(OBSERVATION, action), NetworkConfig(hidden_sizes=(8,)), Rng(0), horizon=steps)
    chosen = (
        generator.integers(0, 3, (steps, rows)) if action is not FORCE else generator.uniform(-2, 2, (steps, rows, 1))
    )
    live = np.ones((steps, rows), np.float32)
    live[2:, 1], live[1:, 4] = 0, 0
    batch = Batch(
        lead=2,
        observations=torch.from_numpy(generator.normal(size=(steps, rows, 2)).astype(np.float32)),
        actions=torch.from_numpy(chosen if action is not FORCE else chosen.astype(np.float32)),
        weights=torch.from_numpy(live),
    )
    times = generator.random(rows).astype(np.float32)
    noise = generator.normal(size=(rows, steps, model.size)).astype(np.float32)
    total, count = 0.0, 0.0
    for n in range(rows):
        data = np.zeros((steps, model.size), np.float32)
        for t in range(steps):
            if live[t, n]:
                data[t] = (
                    chosen[t, n] / 2 if action is FORCE else [1.0 if a == chosen[t, n] else -1.0 for a in range(3)]
                )
        angle = pi / 2 * float(times[n])
        x = cos(angle) * data + sin(angle) * noise[n]
        guess = model(
            torch.from_numpy(x)[None].float(), torch.tensor(times[n : n + 1]), batch.observations[0, n : n + 1]
        )
        errors = (guess[0].detach().numpy() - data) ** 2
        total += float((errors.mean(-1) * live[:, n]).sum())
        count += float(live[:, n].sum())
    loss, _ = diffusion_loss(model, batch, torch.from_numpy(times), torch.from_numpy(noise))
    assert float(loss.detach()) == pytest.approx(total / count, rel=1e-4)


def test_what_acts_is_a_running_mean_of_what_is_learned() -> None:
    trainer = build(ema=0.5)
    trainer.train_step()
    before, prior = trainer.average.flat.data.clone(), trainer.optimizer.flat.data
    trainer.train_step()
    assert not torch.equal(trainer.average.flat.data, prior)
    assert not torch.equal(trainer.average.flat.data, before)
    calls = trainer.optimizer.calls
    last = trainer.source.last
    assert last is not None
    before = trainer.average.flat.data.clone()
    trainer.update(last)
    share = max(0.5, 9 / (10 + calls + 1))
    torch.testing.assert_close(trainer.average.flat.data, before + share * (trainer.optimizer.flat.data - before))
    planner = trainer.agent.planner
    assert isinstance(planner, DiffusionPlanner)
    assert planner.model is trainer.average.model is trainer.model.prior


def test_statistics_see_every_row_once() -> None:
    trainer = build()
    for _ in range(5):
        trainer.train_step()
    rows = trainer.source.env_steps
    assert trainer.prior.normalizer.count == rows
    assert trainer.model.prior.normalizer is trainer.prior.normalizer
    held = trainer.source.replay.all().observations  # type: ignore[union-attr]
    torch.testing.assert_close(trainer.prior.normalizer.mean, held.mean(0), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("behaviour", ["random", "own", {"kind": "mppi", "horizon": 5, "candidates": 8}], ids=str)
@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_every_behaviour_fills_replay(env_id: str, behaviour: Any) -> None:
    trainer = build(env_id, behaviour=behaviour)
    metrics = trainer.train_step()
    assert {"loss", "grad_norm", "score", "expected_return", "kl", "effective_samples"} <= set(metrics)
    actions = trainer.source.replay.all().actions.float()  # type: ignore[union-attr]
    assert actions.std() > 0.1
    if behaviour == "random" and env_id == "Pendulum-v1":
        assert abs(float(actions.std()) - 4 / 12**0.5) < 0.15, "uniform between the bounds"


@pytest.mark.parametrize(
    "planner", [{"select": "mean", "beta": 1.0}, {"select": "mean", "kl_budget": 0.5}, {"guidance": 0.1}]
)
def test_the_numbers_of_inference_are_reported(planner: dict[str, Any]) -> None:
    trainer = build(planner={"horizon": 5, "candidates": 16, "levels": 3, **planner})
    metrics = trainer.train_step()
    if "kl_budget" in planner:
        assert float(metrics["kl"]) == pytest.approx(0.5, abs=0.02)
        assert float(metrics["beta"]) > 0
    if "beta" in planner:
        assert float(metrics["beta"]) == 1.0
    assert 1.0 <= float(metrics["effective_samples"]) <= 16.0


def test_a_learned_model_is_learned_beside_the_prior() -> None:
    trainer = build(dynamics={"kind": "ensemble", "members": 2, "hidden_sizes": [16]}, lr=3e-3, gradient_steps=30)
    first = float(trainer.train_step()["dynamics_error"])
    for _ in range(6):
        last = float(trainer.train_step()["dynamics_error"])
    assert last < 0.5 * first
    assert any(name.startswith("dynamics.") for name in trainer.agent.model.state_dict())
    assert "judge_optimizer" in trainer.stateful()
    assert "judge_optimizer" not in build().stateful()


def test_a_value_is_learned_beside_the_prior_and_guides_it() -> None:
    trainer = build(
        gamma=0.9,
        lr=3e-3,
        gradient_steps=60,
        planner={"horizon": 5, "candidates": 8, "levels": 3, "value": "own", "guidance": 0.01},
    )
    rows = [trainer.train_step() for _ in range(6)]
    assert float(rows[-1]["value_loss"]) < 0.5 * float(rows[0]["value_loss"])
    assert 0.0 < float(rows[-1]["value_trust"]) <= 1.0
    value = trainer.model.value
    assert value is not None
    assert value.rows == trainer.source.replay.added  # type: ignore[union-attr]
    assert trainer.agent.score.value is value
    hanging, upright = value(torch.tensor([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    assert upright > hanging
    noise = trainer.agent.planner.noise(np.random.default_rng(0), 2)
    starts = torch.tensor([[-1.0, 0.1, 0.5], [0.0, 1.0, 1.0]])
    with torch.no_grad():
        bent = trainer.agent.planner.sample(starts, noise, trainer.agent.score)
        trainer.agent.score.value = None
        assert not torch.equal(bent, trainer.agent.planner.sample(starts, noise, trainer.agent.score))


def test_it_learns_from_a_dataset_without_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    teacher = build(behaviour={"kind": "mppi", "horizon": 5, "candidates": 8})
    env = experiment_from({"env": {"id": "Pendulum-v1"}, "policy": {"algo": "ppo"}}).env
    shown = recorded_episodes(teacher.source.collector.agent, env, episodes=2, seed=0, vectorization="native")  # type: ignore[union-attr]
    write_dataset("pendulum/mppi-v0", shown, teacher.agent.spaces, None, algorithm="mppi", code="", description="")
    trainer = build(dataset="pendulum/mppi-v0")
    losses = [float(trainer.train_step()["loss"]) for _ in range(10)]
    assert losses[-1] < losses[0]
    assert trainer.source.env_steps == 10 * 4 * 16
    assert trainer.prior.normalizer.count == 400


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.learning_starts"):
        build(learning_starts=600)
    with pytest.raises(ConfigError, match=r"discounted by train\.gamma"):
        build(behaviour={"kind": "cem", "gamma": 0.9})
    with pytest.raises(Incompatible, match="reward dense: there is none for Pendulum-v1"):
        build(planner={"horizon": 5, "reward": "dense"})
    with pytest.raises(ConfigError, match=r"train\.planner\.value: .*set train\.gamma below 1"):
        build(planner={"horizon": 5, "value": "own"})
    with pytest.raises(Incompatible, match=r"train\.behaviour: diffusion is what is learned here; .* own"):
        build(behaviour={"kind": "diffusion"})
    with pytest.raises(Incompatible, match="no gradient by choices"):
        build("CartPole-v1", planner={"horizon": 5, "guidance": 1.0})


def test_random_shares_grow_from_environment_to_environment() -> None:
    for space in (Discrete(3), Box((2,), "float32", (-1.0, 0.0), (1.0, 4.0))):
        share = RandomShare(space, 0.9)
        noise = share.noise(np.random.default_rng(0), 4000, 4)
        own = np.full((4,), 7) if isinstance(space, Discrete) else np.full((4, 2), 7.0, np.float32)
        taken = np.stack([share(own, row, np.zeros(4), Place(4, np.arange(4), 4)) for row in noise])
        assert taken.dtype == own.dtype
        random = (taken.reshape(4000, 4, -1) != 7).any(-1)
        np.testing.assert_allclose(random.mean(0), [0.0, 0.3, 0.6, 0.9], atol=0.03)
        part = Place(4, np.array([2, 3]), 4)  # a worker that has the last two
        there = np.stack([share(own[2:], row[2:], np.zeros(2), part) for row in noise])
        assert np.array_equal(there, taken[:, 2:])
        if isinstance(space, Discrete):
            assert set(np.unique(taken)) == {0, 1, 2, 7}
        else:
            drawn = taken[random]
            np.testing.assert_allclose(drawn.min(0), [-1.0, 0.0], atol=0.01)
            np.testing.assert_allclose(drawn.max(0), [1.0, 4.0], atol=0.01)


@pytest.mark.learning
def test_planning_with_what_was_learned_beats_what_it_was_learned_from() -> None:
    planner = {"horizon": 12, "candidates": 32, "levels": 5}
    cfg = experiment_from(
        {
            "env": {"id": "Pendulum-v1", "num_envs": 16, "seed": 3},
            "policy": {"algo": "diffusion", "network": {"hidden_sizes": [64], "activation": "silu"}},
            "train": {
                "epochs": 2,
                "steps_per_epoch": 3200,
                "batch_size": 128,
                "learning_starts": 3200,
                "train_every": 800,
                "gradient_steps": 100,
                "lr": 3e-3,
                "planner": planner,
                "behaviour": {"kind": "mppi", "horizon": 15, "candidates": 16},
                "random_share": 1.0,
            },
        }
    )
    trainer = build_trainer(cfg, build_runtime(cfg))
    assert isinstance(trainer, Diffusion)
    reports = [tick.report for tick in train(trainer, cfg.train, Position()) if tick.report]
    shown = float(np.mean([report.metrics["rollout/return_mean"] for report in reports]))
    one = DiffusionPlanner(DiffusionPlannerConfig(**{**planner, "candidates": 1}), trainer.model.prior)
    alone = PlanningAgent(one, trainer.agent.score, trainer.agent.spaces, trainer.model)
    earned = {
        name: evaluate(agent, cfg.env, episodes=16, seed=5, vectorization="native").summary.mean
        for name, agent in (("selected", trainer.agent), ("prior", alone))
    }
    assert earned["selected"] > shown + 150
    assert earned["selected"] > earned["prior"] + 150
