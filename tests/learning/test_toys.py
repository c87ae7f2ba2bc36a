"""Every algorithm must solve a world so simple that failing means it is broken. Seconds each, seeds fixed."""

import tempfile
from functools import cache

import numpy as np
import pytest
import torch

from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import Acted
from rlstudio.data.datasets.minari_files import write_dataset
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train
from support.repetition import few

pytestmark = pytest.mark.learning

TRAIN = {
    "a2c": {"epochs": 12, "steps_per_epoch": 500, "lr": 5e-3},
    "bc": {"epochs": 4, "steps_per_epoch": 5120, "batch_size": 64, "lr": 1e-2},
    "diffusion": {
        "epochs": 3,
        "steps_per_epoch": 512,
        "batch_size": 64,
        "learning_starts": 200,
        "train_every": 32,
        "gradient_steps": 16,
        "lr": 3e-3,
        "max_grad_norm": None,
        "planner": {"horizon": 1, "candidates": 64, "levels": 5},
        "dynamics": {"kind": "ensemble", "members": 2},
    },
    "mbmpc": {
        "epochs": 3,
        "steps_per_epoch": 200,
        "batch_size": 64,
        "learning_starts": 200,
        "train_every": 40,
        "gradient_steps": 40,
        "n_step": 2,
        "lr": 1e-2,
        "gamma": 0.5,
        "planner": {"kind": "random_shooting", "horizon": 2, "candidates": 128},
        "dynamics": {"members": 2, "hidden_sizes": [32]},
    },
    "mpc": {"epochs": 1, "steps_per_epoch": 80, "planner": {"horizon": 5, "candidates": 16}},
    "ppo": {"epochs": 12, "steps_per_epoch": 512, "batch_size": 64, "passes": 6, "lr": 5e-3},
    "dqn": {"epochs": 6, "steps_per_epoch": 512, "batch_size": 64, "learning_starts": 200, "lr": 5e-3, "gamma": 0.9},
    "qrdqn": {
        "epochs": 6,
        "steps_per_epoch": 512,
        "batch_size": 64,
        "learning_starts": 200,
        "lr": 5e-3,
        "gamma": 0.9,
        "quantiles": 16,
    },
    "sac": {"epochs": 3, "steps_per_epoch": 512, "learning_starts": 200, "train_every": 4, "lr": 1e-2, "gamma": 0.5},
    "td3": {"epochs": 4, "steps_per_epoch": 512, "learning_starts": 200, "train_every": 4, "lr": 1e-2, "gamma": 0.5},
}
CHOOSING = sorted(algo for algo in TRAIN if ALGOS.load(algo).discrete is not False)
LEARNING = sorted(set(TRAIN) - {"mpc"})  # which needs the equations of its world, and has no weights


def data_of(algo: str, env_id: str) -> dict:
    return {"dataset": demonstrated(env_id)} if algo == "bc" else {}


class Shown:
    """Does what it is shown."""

    def __init__(self, choices: bool) -> None:
        self.choices = choices

    def step(self, observations, carry=None, noise=None):
        return Acted(observations.argmax(-1) if self.choices else observations.copy(), {}, carry)


@cache
def demonstrated(env_id: str) -> str:
    """Episodes of somebody who knows how it is done, as the folder of a dataset."""
    cfg = experiment_from({"env": {"id": env_id}, "policy": {"algo": "ppo"}})
    spaces = build_runtime(cfg).spaces
    episodes = recorded_episodes(Shown("Box" not in env_id), cfg.env, episodes=40, seed=0, vectorization="native")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", tempfile.mkdtemp())
        return str(write_dataset("x-v0", episodes, spaces, None, algorithm="", code="", description=""))


def trained(algo: str, env_id: str, seed: int = 1, **train_fields):
    data = {
        "env": {"id": env_id, "num_envs": 4, "seed": seed},
        "policy": {"algo": algo, "network": {"hidden_sizes": [32]}},
        "train": {**TRAIN[algo], **data_of(algo, env_id), **train_fields},
    }
    cfg = experiment_from(data)
    env = build_runtime(cfg)
    trainer = build_trainer(cfg, env)
    for _ in train(trainer, cfg.train, Position()):
        pass
    env.close()
    return trainer, cfg


def test_every_algorithm_in_the_catalog_has_a_toy():
    assert set(ALGOS.names()) == set(TRAIN)


CHOICES = [(algo, seed) for seed in (1, 2) for algo in sorted({*CHOOSING} & {*LEARNING})]
REPEATED = [*((algo, 2) for algo in TRAIN), ("diffusion", 1), ("mbmpc", 1)]
"""In the slow suite: another seed, and the two that are asked for numbers below: one takes noise away, which is made
for numbers, and one plans."""


@pytest.mark.parametrize(
    ("algo", "seed"), [pytest.param(*case, marks=[pytest.mark.slow] * (case in REPEATED)) for case in CHOICES]
)
def test_identity(algo, seed):
    trainer, cfg = trained(algo, "rlstudio/Identity-v0", seed)
    evaluation = evaluate(trainer.agent, cfg.env, episodes=20, seed=9)
    assert evaluation.summary.mean >= 0.99 * np.mean(evaluation.lengths)  # one point per step is perfect


@pytest.mark.parametrize("algo", ["dqn", pytest.param("qrdqn", marks=pytest.mark.slow)])
def test_the_parts_of_q_learning_solve_it_together(algo):
    trainer, cfg = trained(algo, "rlstudio/Identity-v0", epochs=5, dueling=True, prioritized={}, n_step=2, double=True)
    evaluation = evaluate(trainer.agent, cfg.env, episodes=20, seed=9)
    assert evaluation.summary.mean >= 0.99 * np.mean(evaluation.lengths)


CHOOSERS = ("ppo", "a2c", "bc")
"""They have solved it with choices. With numbers PPO does in `tests/algos/test_state_dependent_exploration.py` too."""


@pytest.mark.parametrize(
    "algo", few(["ppo", "a2c", "sac", "td3", "bc", "diffusion", "mbmpc"], lambda algo: algo not in CHOOSERS)
)
def test_it_solves_the_continuous_identity(algo):
    epochs = {"ppo": 30, "a2c": 30, "mbmpc": 2}.get(algo, TRAIN[algo]["epochs"])
    trainer, cfg = trained(algo, "rlstudio/IdentityBox-v0", epochs=epochs)
    evaluation = evaluate(trainer.agent, cfg.env, episodes=20, seed=9)
    assert evaluation.summary.mean / np.mean(evaluation.lengths) > -0.02  # squared error per step


@pytest.mark.parametrize("algo", LEARNING)
def test_one_train_step_changes_the_weights_and_eval_step_does_not(algo):
    env_id = "CartPole-v1" if algo in CHOOSING else "Pendulum-v1"
    fields = {**TRAIN[algo], **data_of(algo, "rlstudio/Identity-v0")}
    env_id = "rlstudio/Identity-v0" if algo == "bc" else env_id
    cfg = experiment_from({"env": {"id": env_id, "num_envs": 4}, "policy": {"algo": algo}, "train": fields})
    trainer = build_trainer(cfg, build_runtime(cfg))
    with pytest.raises(RuntimeError, match="call train_step first"):
        trainer.eval_step()
    before = trainer.optimizer.flat.data.clone()
    trainer.train_step()
    after = trainer.optimizer.flat.data.clone()
    assert not torch.equal(before, after)
    steps = trainer.source.env_steps
    metrics = trainer.eval_step()
    assert torch.isfinite(torch.stack(list(metrics.values()))).all()
    assert torch.equal(trainer.optimizer.flat.data, after)
    assert trainer.source.env_steps == steps


def test_target_kl_stops_updates_of_a_rollout():
    data = {"env": {"id": "CartPole-v1", "num_envs": 4}, "policy": {"algo": "ppo"}}
    free = experiment_from({**data, "train": {**TRAIN["ppo"], "lr": 0.05}})
    bound = experiment_from({**data, "train": {**TRAIN["ppo"], "lr": 0.05, "target_kl": 1e-4}})
    updates, applied = [], []
    for cfg in (free, bound):
        trainer = build_trainer(cfg, build_runtime(cfg))
        trainer.train_step()
        updates.append(trainer.optimizer.calls)
        applied.append(int(trainer.optimizer.count))
        assert not trainer.optimizer.skipped  # nothing was wrong with them
    assert updates[1] < updates[0] == applied[0]
    assert applied[1] == updates[1] - 1  # the one that went too far changes nothing
