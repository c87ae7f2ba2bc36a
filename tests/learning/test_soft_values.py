"""Values of continuous actions known in closed form, learned through time limits that are no ends: by SAC, and in the
slow suite by TD3.

The world shows x, drawn anew each step from [-1, 1], and pays -(a - x)^2; it never ends, but is cut every 8 steps.
"""

import numpy as np
import pytest
import torch

from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train

pytestmark = pytest.mark.learning

GAMMA, TEMPERATURE = 0.8, 0.1


def trained(algo: str, **fields):
    env = {"id": "rlstudio/IdentityBox-v0", "num_envs": 4, "kwargs": {"length": 10**9}, "max_episode_steps": 8}
    train_fields = {"epochs": 6, "steps_per_epoch": 1000, "batch_size": 128, "learning_starts": 500, "lr": 1e-2,
                    "lr_schedule": "linear", "gamma": GAMMA, "tau": 0.05, "train_every": 4, **fields}  # fmt: skip
    network = {"hidden_sizes": [32, 32], "activation": "relu"}
    cfg = experiment_from({"env": env, "policy": {"algo": algo, "network": network}, "train": train_fields})
    trainer = build_trainer(cfg, build_runtime(cfg))
    for _ in train(trainer, cfg.train, Position()):
        pass
    return trainer


def learned_q(trainer, x: np.ndarray, a: np.ndarray) -> np.ndarray:
    columns = (torch.tensor(side, dtype=torch.float32).unsqueeze(1) for side in (x, a))
    with torch.no_grad():
        return trainer.q(*columns).mean(0).numpy()


X, A = (grid.ravel() for grid in np.meshgrid(np.linspace(-0.8, 0.8, 9), np.linspace(-0.8, 0.8, 9)))


@pytest.mark.slow
def test_td3_learns_the_true_values():
    """The best action earns nothing less than zero: Q(x, a) = -(a - x)^2. Smoothed targets cost 0.2^2 a step."""
    trainer = trained("td3", target_noise=0.0)
    np.testing.assert_allclose(learned_q(trainer, X, A), -((A - X) ** 2), atol=0.12)


def test_sac_learns_the_true_soft_values():
    """V(x) = alpha log of the integral of exp(Q(x, a) / alpha) over a, hence with the mean over x

        V = E[alpha log of the integral of exp(-(a - x)^2 / alpha)] / (1 - gamma)        Q(x, a) = -(a - x)^2 + gamma V

    and the policy is exp(Q / alpha), near x = 0 a Gaussian of variance alpha / 2.
    """
    trainer = trained("sac", temperature=TEMPERATURE)
    shown, taken = np.linspace(-1, 1, 401), np.linspace(-1, 1, 2001)
    mass = np.exp(-((taken[None] - shown[:, None]) ** 2) / TEMPERATURE).mean(1) * 2
    value = TEMPERATURE * np.log(mass).mean() / (1 - GAMMA)
    assert value < -0.3  # who takes a cut for an end learns a value several times nearer to zero
    np.testing.assert_allclose(learned_q(trainer, X, A), -((A - X) ** 2) + GAMMA * value, atol=0.12)
    with torch.no_grad():
        policy = trainer.model(torch.zeros(1, 1))
    assert policy.log_std.exp().item() == pytest.approx(np.sqrt(TEMPERATURE / 2), rel=0.2)
