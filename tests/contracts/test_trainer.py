"""What every algorithm in the catalog promises, whoever wrote it: these tests run over all of them."""

import random
import tempfile
from functools import cache

import numpy as np
import pytest
import torch

from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import Stateful
from rlstudio.core.errors import Incompatible
from rlstudio.data.datasets.minari_files import write_dataset
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.checkpoint.checkpoints import state_hash
from rlstudio.experiment.checkpoint.snapshot import capture, restore
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.training.build import build_runtime, build_trainer
from support.states import as_loaded

pytestmark = pytest.mark.parametrize("algo", ALGOS.names())


def small(algo: str, env_id: str | None = None, **env):
    trainer = ALGOS.load(algo)
    env_id = env_id or ("Pendulum-v1" if trainer.discrete is False else "CartPole-v1")
    train: dict = {"steps_per_epoch": 80}
    if "batch_size" in trainer.Config.model_fields:
        train |= {"batch_size": 10}
    if "learning_starts" in trainer.Config.model_fields:
        train |= {"learning_starts": 32}
    if "passes" in trainer.Config.model_fields:
        train |= {"passes": 2}
    if "ema" in trainer.Config.model_fields:
        plans = {"horizon": 5, "candidates": 8, "levels": 3, "value": "own"}
        train |= {"train_every": 4, "gradient_steps": 2, "gamma": 0.9, "planner": plans}
    if algo == "mbmpc":
        train |= {"train_every": 4, "gradient_steps": 2, "n_step": 2, "dynamics": {"members": 2, "hidden_sizes": [8]}}
    if algo in ("mbmpc", "mpc"):
        train |= {"planner": {"horizon": 3, "candidates": 8}}
    if algo == "mpc":
        train |= {"rollout_steps": 5}  # else each train step plans for a whole epoch
    if trainer.Config.model_fields.get("dataset") and trainer.Config.model_fields["dataset"].is_required():
        train |= {"dataset": recorded(env_id)}
    if "target_every" in trainer.Config.model_fields:
        train |= {"target_every": 5}
    data = {"env": {"id": env_id, "num_envs": 2, **env}, "policy": {"algo": algo, "network": {"hidden_sizes": [8]}}}
    cfg = experiment_from({**data, "train": train, "buffer": {"capacity": 256}})
    return build_trainer(cfg, build_runtime(cfg))


@cache
def recorded(env_id: str) -> str:
    """Three episodes of an agent that has not learned anything, as the folder of a dataset."""
    untrained = small("ppo", env_id)
    env = experiment_from({"env": {"id": env_id}, "policy": {"algo": "ppo"}}).env
    episodes = recorded_episodes(untrained.agent, env, episodes=3, seed=0, vectorization="native")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", tempfile.mkdtemp())
        return str(write_dataset("x-v0", episodes, untrained.agent.spaces, None, algorithm="", code="", description=""))


def hash_of(trainer) -> str:
    return state_hash(capture(trainer, {}, seed=0, attempt=0, meta={}))


def test_its_metrics_are_finite_scalars_that_never_left_the_device(algo):
    trainer = small(algo)
    trainer.progress(0.0)
    metrics = trainer.train_step()
    assert metrics
    for value in metrics.values():
        assert isinstance(value, torch.Tensor)
        assert value.shape == ()
        assert not value.requires_grad
        assert torch.isfinite(value)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(algo):
    hashes = []
    for seed in (3, 3, 4):
        trainer = small(algo, seed=seed)
        for _ in range(5):
            trainer.progress(0.5)
            trainer.train_step()
        hashes.append(hash_of(trainer))
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("vectorization", ["native", "sync"])
def test_a_restored_trainer_continues_bit_for_bit(algo, vectorization):
    straight, cut = (small(algo, vectorization=vectorization) for _ in range(2))
    for trainer in (straight, cut):
        for _ in range(7):
            trainer.train_step()
    content = capture(cut, {}, seed=0, attempt=0, meta={})
    resumed = small(algo, vectorization=vectorization)
    restore(as_loaded(content), resumed, {})
    assert hash_of(resumed) == hash_of(straight)
    for trainer in (straight, resumed):
        for _ in range(7):
            trainer.train_step()
    assert hash_of(resumed) == hash_of(straight)


def test_it_draws_from_no_global_generator(algo):
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())
    small(algo).train_step()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert random.getstate() == before[2]


def test_a_poisoned_batch_changes_no_weight(algo):
    trainer = small(algo)
    for _ in range(2):
        trainer.train_step()
    batch = trainer.source.last
    weights = weights_of(trainer)
    # Who imitates reads no rewards: a bad one is no reason not to learn from its row.
    for column in ("observations",) if algo in ("bc", "diffusion") else ("rewards", "observations"):
        for _ in range(2):  # some parts learn only every other time
            trainer.update(batch.with_(**{column: torch.full_like(getattr(batch, column), torch.nan)}))
        assert weights_of(trainer) == weights
    assert not trainer.optimizers or trainer.optimizer.skipped > 0


def weights_of(trainer) -> dict[str, bytes]:
    """Every weight of every Model."""
    models = {name: part for name, part in trainer.stateful().items() if isinstance(part, torch.nn.Module)}
    return {
        f"{name}.{key}": value.numpy().tobytes()
        for name, model in models.items()
        for key, value in model.state_dict().items()
    }


def test_its_state_is_named_and_its_agent_knows_nothing_of_it(algo):
    trainer = small(algo)
    parts = trainer.stateful()
    assert {"model", "source", *(["optimizer"] if trainer.optimizers else [])} <= set(parts)
    assert all(isinstance(part, Stateful) for part in parts.values())
    assert not any(hasattr(trainer.agent, name) for name in ("optimizer", "source", "cfg"))


def test_action_spaces_that_do_not_fit_are_refused_with_both_names(algo):
    discrete = ALGOS.load(algo).discrete
    if discrete is None:
        small(algo, "Pendulum-v1").train_step()  # fits both kinds
    else:
        with pytest.raises(Incompatible, match=rf"{algo} needs .* actions, but .* takes"):
            small(algo, "Pendulum-v1" if discrete else "CartPole-v1")
