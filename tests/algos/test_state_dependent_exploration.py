"""State-dependent exploration as a part of whole algorithms: exact under resume, and learned with."""

import numpy as np
import pytest
import torch

from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import Collector
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train

HELD = {"hidden_sizes": [16], "exploration": "state_dependent", "exploration_hold": 8, "log_std_init": -1.0}
TRAIN = {
    "ppo": {"epochs": 25, "steps_per_epoch": 512, "batch_size": 64, "passes": 6, "lr": 5e-3},
    "a2c": {"epochs": 25, "steps_per_epoch": 500, "lr": 5e-3},
    "sac": {"epochs": 4, "steps_per_epoch": 512, "learning_starts": 200, "train_every": 4, "lr": 1e-2, "gamma": 0.5},
}


def build(algo: str, env_id: str = "Pendulum-v1", **network):
    data = {"env": {"id": env_id, "num_envs": 4}, "policy": {"algo": algo, "network": HELD | network}}
    cfg = experiment_from({**data, "train": TRAIN[algo]})
    return build_trainer(cfg, build_runtime(cfg)), cfg


@pytest.mark.parametrize("algo", TRAIN)
def test_how_steps_are_cut_into_rollouts_changes_no_action(algo):
    agent = build(algo)[0].agent
    found = []
    for cuts in ([40], [3, 7, 13, 17], [1] * 40):
        collector = Collector(make_vec_env(EnvConfig(id="Pendulum-v1", num_envs=4)), agent, Rng(1))
        found.append(np.concatenate([collector.collect(steps).actions.numpy().copy() for steps in cuts]))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("algo", TRAIN)
def test_a_collector_resumes_in_the_midst_of_a_held_matrix(algo):
    agent = build(algo)[0].agent
    make = lambda: Collector(make_vec_env(EnvConfig(id="Pendulum-v1", num_envs=4)), agent, Rng(1))  # noqa: E731
    straight, cut, resumed = make(), make(), make()
    whole = straight.collect(20).actions.numpy().copy()
    cut.collect(11)
    resumed.load_state_dict(cut.state_dict())
    assert np.array_equal(resumed.collect(9).actions.numpy(), whole[11:])


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_rollouts_have_the_density_that_their_noise_has(algo):
    """A rollout's actions, standardised by the policy that learning sees, are standard normal."""
    trainer, _ = build(algo, exploration_hold=1)
    flat = trainer.source.collector.collect(1000).flatten()
    with torch.no_grad():
        policy = trainer.model(flat.observations)[0]
    standard = (flat.actions - policy.mean) / policy.log_std.exp()
    assert standard.mean().abs() < 0.05
    assert standard.std().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.learning
@pytest.mark.parametrize("algo", ["ppo", "sac", pytest.param("a2c", marks=pytest.mark.slow)])
def test_it_solves_the_continuous_identity(algo):
    trainer, cfg = build(algo, "rlstudio/IdentityBox-v0", hidden_sizes=[32], exploration_hold=1)
    for _ in train(trainer, cfg.train, Position()):
        pass
    evaluation = evaluate(trainer.agent, cfg.env, episodes=20, seed=9)
    assert evaluation.summary.mean / np.mean(evaluation.lengths) > -0.02  # squared error per step
