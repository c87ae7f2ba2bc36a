"""What every algorithm promises: finite metrics, equal bits for equal seeds, exact resume, no global randomness."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import pytest
import torch

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.contracts import Stateful, Trainer
from rlstudio.core.errors import Incompatible
from rlstudio.data.datasets.minari_files import write_dataset
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.checkpoint.checkpoints import state_hash
from rlstudio.experiment.checkpoint.snapshot import capture, restore
from rlstudio.experiment.config.algorithm import algorithm
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.training.build import build_runtime, build_trainer

S = TypeVar("S")

NUMBERS, CHOICES = "Pendulum-v1", "CartPole-v1"
SMALL = {"steps_per_epoch": 80, "batch_size": 10, "learning_starts": 32, "passes": 2, "target_every": 5}
"""Settings that many algorithms have, for those that have them."""


def small_config(algo: str, train: Mapping[str, object], env_id: str = "", **env: object) -> ExperimentConfig:
    """An experiment of a few steps; in a world that the algorithm fits, if none is named."""
    chosen = algorithm(algo)
    env_id = env_id or (NUMBERS if chosen.discrete is False else CHOICES)
    fields = chosen.Config.model_fields
    settings: dict[str, object] = {name: value for name, value in SMALL.items() if name in fields}
    if "dataset" in fields and fields["dataset"].is_required():
        settings["dataset"] = recorded(env_id)
    data = {"env": {"id": env_id, "num_envs": 2, **env}, "policy": {"algo": algo, "network": {"hidden_sizes": [8]}}}
    return experiment_from({**data, "train": {**settings, **train}, "buffer": {"capacity": 256}})


@cache
def recorded(env_id: str) -> str:
    """Three episodes of an agent that has not learned anything, as the folder of a dataset."""
    cfg = small_config("ppo", {}, env_id)
    runtime = build_runtime(cfg)
    untrained = build_trainer(cfg, runtime).agent
    episodes = recorded_episodes(untrained, cfg.env, episodes=3, seed=0, vectorization="native")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", tempfile.mkdtemp())
        return str(write_dataset("x-v0", episodes, runtime.spaces, None, algorithm="", code="", description=""))


class TrainerContract:
    """The contract of an algorithm as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Name of the algorithm."""

    train: ClassVar[Mapping[str, object]] = {}
    """Settings of its own that make it small."""

    env_id: ClassVar[str] = ""
    """Where it is tried; by default a world of the actions it takes."""

    reads_rewards: ClassVar[bool] = True
    """Whether a reward that is no number must keep it from learning; who imitates reads none."""

    def make(self, env_id: str = "", **env: object) -> Trainer:
        cfg = small_config(self.part, self.train, env_id or self.env_id, **env)
        return build_trainer(cfg, build_runtime(cfg))

    def test_its_metrics_are_finite_scalars_that_never_left_the_device(self) -> None:
        trainer = self.make()
        trainer.progress(0.0)
        metrics = trainer.train_step()
        assert trainer.lr is None or "loss" in metrics, "what the first optimizer follows"
        for value in metrics.values():
            assert isinstance(value, torch.Tensor)
            assert value.shape == ()
            assert not value.requires_grad
            assert torch.isfinite(value)
        values = {name: value.item() for name, value in metrics.items()}
        trainer.train_step()
        assert {name: value.item() for name, value in metrics.items()} == values, "they are read some steps later"

    def test_the_same_seed_gives_the_same_bits_and_another_seed_others(self) -> None:
        hashes = []
        for seed in (3, 3, 4):
            trainer = self.make(seed=seed)
            for _ in range(5):
                trainer.progress(0.5)
                trainer.train_step()
            hashes.append(hash_of(trainer))
        assert hashes[0] == hashes[1] != hashes[2]

    @pytest.mark.parametrize("vectorization", ["native", "sync"])
    def test_a_restored_trainer_continues_bit_for_bit(self, vectorization: str) -> None:
        straight, cut = (self.make(vectorization=vectorization) for _ in range(2))
        for trainer in (straight, cut):
            for _ in range(7):
                trainer.train_step()
        content = capture(cut, {}, seed=0, attempt=0, meta={})
        resumed = self.make(vectorization=vectorization)
        restore(as_loaded(content), resumed, {})
        assert hash_of(resumed) == hash_of(straight)
        for trainer in (straight, resumed):
            for _ in range(7):
                trainer.train_step()
        assert hash_of(resumed) == hash_of(straight)

    def test_it_draws_from_no_global_generator(self) -> None:
        before = (torch.get_rng_state(), _numpy_state(), random.getstate())
        self.make().train_step()
        assert torch.equal(torch.get_rng_state(), before[0])
        assert _numpy_state() == before[1]
        assert random.getstate() == before[2]

    def test_a_poisoned_batch_changes_no_weight(self) -> None:
        trainer: Any = self.make()
        for _ in range(2):
            trainer.train_step()
        batch = trainer.source.last
        weights = weights_of(trainer)
        for column in ("rewards", "observations") if self.reads_rewards else ("observations",):
            for _ in range(2):  # some parts learn only every other time
                trainer.update(batch.with_(**{column: torch.full_like(getattr(batch, column), torch.nan)}))
            assert weights_of(trainer) == weights
            assert all(value.isfinite().all() for value in _statistics(trainer))
        assert trainer.lr is None or trainer.skipped > 0

    def test_its_class_says_what_it_is(self) -> None:
        chosen = algorithm(self.part)
        assert issubclass(chosen.Config, RunLength)
        assert chosen.off_policy in (True, False)
        assert chosen.discrete in (True, False, None)

    def test_its_state_is_named_and_its_agent_knows_nothing_of_it(self) -> None:
        trainer = self.make()
        parts = trainer.stateful()
        assert {"model", "source", *([] if trainer.lr is None else ["optimizer"])} <= set(parts)
        assert all(isinstance(part, Stateful) for part in parts.values())
        assert not any(hasattr(trainer.agent, name) for name in ("optimizer", "source", "cfg"))

    def test_action_spaces_that_do_not_fit_are_refused_with_both_names(self) -> None:
        discrete = algorithm(self.part).discrete
        if discrete is None:
            self.make(NUMBERS).train_step()  # fits both kinds
        else:
            with pytest.raises(Incompatible, match=rf"{self.part} needs .* actions, but .* takes"):
                self.make(NUMBERS if discrete else CHOICES)


def _numpy_state() -> str:
    return repr(np.random.get_state(legacy=False))


def hash_of(trainer: Trainer) -> str:
    return state_hash(capture(trainer, {}, seed=0, attempt=0, meta={}))


def weights_of(trainer: Trainer) -> dict[str, bytes]:
    """Every weight of every Model; statistics of observations are none."""
    return {
        f"{name}.{key}": value.detach().numpy().tobytes()
        for name, model in _models(trainer).items()
        for key, value in model.named_parameters()
    }


def _statistics(trainer: Trainer) -> list[torch.Tensor]:
    return [value for model in _models(trainer).values() for value in model.buffers()]


def _models(trainer: Trainer) -> dict[str, torch.nn.Module]:
    return {name: part for name, part in trainer.stateful().items() if isinstance(part, torch.nn.Module)}


def as_loaded(state: S) -> S:
    """A captured state as a checkpoint gives it back: arrays of its own, nothing shared with the living trainer."""
    return cast("S", _as_loaded(state))


def _as_loaded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _as_loaded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_loaded(part) for part in value]
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    return value.copy() if isinstance(value, np.ndarray) else value
