"""Every algorithm must solve a world so simple that failing means it is broken. Seconds each, seeds fixed."""

import numpy as np
import pytest
import torch

from rlstudio.core.catalog import ALGOS
from rlstudio.experiment.build import build_env, build_trainer
from rlstudio.experiment.config import experiment_from
from rlstudio.experiment.evaluate import evaluate
from rlstudio.experiment.loop import Position, train

pytestmark = pytest.mark.learning

TRAIN = {
    "ppo": {"epochs": 12, "steps_per_epoch": 512, "batch_size": 64, "passes": 6, "lr": 5e-3},
    "dqn": {"epochs": 12, "steps_per_epoch": 512, "batch_size": 64, "learning_starts": 200, "lr": 5e-3, "gamma": 0.9},
}


def trained(algo: str, env_id: str, seed: int = 1, **train_fields):
    data = {
        "env": {"id": env_id, "num_envs": 4, "seed": seed},
        "policy": {"algo": algo, "network": {"hidden_sizes": [32]}},
        "train": {**TRAIN[algo], **train_fields},
    }
    cfg = experiment_from(data)
    env = build_env(cfg)
    trainer = build_trainer(cfg, env)
    for _ in train(trainer, cfg.train, Position()):
        pass
    env.close()
    return trainer, cfg


def test_every_algorithm_in_the_catalog_has_a_toy():
    assert set(ALGOS.names()) == set(TRAIN)


@pytest.mark.parametrize("algo", sorted(TRAIN))
@pytest.mark.parametrize("seed", [1, 2])
def test_identity(algo, seed):
    trainer, cfg = trained(algo, "rlstudio/Identity-v0", seed)
    summary = evaluate(trainer.agent, cfg.env, episodes=20, seed=9).summary
    lengths = evaluate(trainer.agent, cfg.env, episodes=20, seed=9).lengths
    assert summary.mean >= 0.99 * np.mean(lengths)  # one point per step is perfect


def test_ppo_solves_the_continuous_identity():
    trainer, cfg = trained("ppo", "rlstudio/IdentityBox-v0", epochs=30)
    evaluation = evaluate(trainer.agent, cfg.env, episodes=20, seed=9)
    assert evaluation.summary.mean / np.mean(evaluation.lengths) > -0.02  # squared error per step


@pytest.mark.parametrize("algo", sorted(TRAIN))
def test_one_train_step_changes_the_weights_and_eval_step_does_not(algo):
    cfg = experiment_from({"env": {"id": "CartPole-v1", "num_envs": 4}, "policy": {"algo": algo}, "train": TRAIN[algo]})
    trainer = build_trainer(cfg, build_env(cfg))
    with pytest.raises(RuntimeError, match="call train_step first"):
        trainer.eval_step()
    before = trainer.optimizer.flat.data.clone()
    trainer.train_step()
    after = trainer.optimizer.flat.data.clone()
    assert not torch.equal(before, after)
    steps = trainer.source.collector.env_steps
    metrics = trainer.eval_step()
    assert torch.isfinite(torch.stack(list(metrics.values()))).all()
    assert torch.equal(trainer.optimizer.flat.data, after)
    assert trainer.source.collector.env_steps == steps


def test_target_kl_stops_updates_of_a_rollout():
    data = {"env": {"id": "CartPole-v1", "num_envs": 4}, "policy": {"algo": "ppo"}}
    free = experiment_from({**data, "train": {**TRAIN["ppo"], "lr": 0.05}})
    bound = experiment_from({**data, "train": {**TRAIN["ppo"], "lr": 0.05, "target_kl": 1e-4}})
    skipped = []
    for cfg in (free, bound):
        trainer = build_trainer(cfg, build_env(cfg))
        trainer.train_step()
        skipped.append(int(trainer.optimizer.skipped))
    assert skipped[0] == 0
    assert 0 < skipped[1] < trainer.optimizer.calls
