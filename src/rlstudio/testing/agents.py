"""What a checkpoint of every algorithm promises: what it is loaded as acts bit for bit as what was trained, and neither
an environment nor a trainer is built for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from rlstudio.core.contracts import Array, Carried, Trainer
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, Space
from rlstudio.experiment.checkpoint.agent_spec import describe_agent, read_agent
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Loaded
from rlstudio.experiment.checkpoint.snapshot import capture
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.run import checkpoint_agent
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.testing.trainers import small_config

ROWS, STEPS = 3, 4


class LoadedAgentContract:
    """The contract of loaded agents as tests: they act as what was trained. Extend this class and name the
    algorithm."""

    part: ClassVar[str]
    """Name of the algorithm."""

    train: ClassVar[Mapping[str, object]] = {}
    """Settings of its own that make it small."""

    builds_trainer: ClassVar[bool] = False
    """True for an algorithm with an agent of its own and no `build_agent`: then its trainer is built to act."""

    def trained(self) -> tuple[Trainer, ExperimentConfig]:
        """After a few updates."""
        cfg = small_config(self.part, self.train)
        return after_updates(cfg), cfg

    def test_it_acts_bit_for_bit_as_what_was_trained(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        trainer, cfg = self.trained()
        if not self.builds_trainer:
            for name in ("build_runtime", "build_trainer"):
                monkeypatch.setattr(checkpoint_agent, name, lambda *_, name=name: pytest.fail(f"{name} was called"))
        loaded = checkpoint_agent.agent_of(cfg, written(trainer, tmp_path)).agent
        trained = trainer.agent
        assert type(loaded) is type(trained)
        assert (loaded.spaces, loaded.acting, loaded.remembers) == (trained.spaces, trained.acting, trained.remembers)
        generator = np.random.default_rng(3)
        for noisy in (False, True):
            noises = [agent.noise(np.random.default_rng(5), STEPS, ROWS) for agent in (loaded, trained)]
            carries: list[Carried | None] = [None, None]
            for step in range(STEPS):
                rows = observed(trained.spaces.observation, generator)
                acted = [
                    agent.step(rows, carry, noise[step] if noisy else None)
                    for agent, carry, noise in zip((loaded, trained), carries, noises, strict=True)
                ]
                assert same(acted[0].actions, acted[1].actions)
                assert same(acted[0].columns, acted[1].columns)
                assert same(acted[0].carry, acted[1].carry)
                carries = [each.carry for each in acted]

    def test_what_is_described_is_described_again_after_reading(self, tmp_path: Path) -> None:
        trainer, _ = self.trained()
        loaded = written(trainer, tmp_path)
        spec = read_agent(loaded.info)
        assert spec is not None
        assert spec.spaces == trainer.agent.spaces
        assert loaded.info.fields["agent"] == describe_agent(trainer, trainer.agent.spaces)


def after_updates(cfg: ExperimentConfig) -> Trainer:
    """The trainer of an experiment after a few updates; its environments are closed."""
    runtime = build_runtime(cfg)
    trainer = build_trainer(cfg, runtime)
    for _ in range(4):
        trainer.progress(0.0)
        trainer.train_step()
    runtime.close()
    return trainer


def written(trainer: Trainer, folder: Path) -> Loaded:
    """As a run writes it, through the disk and back."""
    fields = {"agent": describe_agent(trainer, trainer.agent.spaces)}
    with FileLease(folder) as lease:
        content = capture(trainer, {}, seed=0, attempt=0, meta={})
        info = Checkpoints(folder, "r", lease).save(content, step=1, manifest=fields)
    return Checkpoints(folder, "r", lease=None).load(info.step)


def observed(space: Space, generator: np.random.Generator, rows: int = ROWS) -> Array:
    """Rows that such a space may show."""
    if isinstance(space, Dict):
        return {name: _leaf(entry, generator, rows) for name, entry in space.items()}
    return _leaf(space, generator, rows)


def _leaf(space: Leaf, generator: np.random.Generator, rows: int) -> np.ndarray:
    if isinstance(space, Box):
        shape = (rows, *space.shape)
        if space.dtype == "uint8":
            return generator.integers(0, 256, shape, np.uint8)
        return generator.standard_normal(shape, np.float32)
    if isinstance(space, Discrete):
        return generator.integers(0, space.n, rows)
    return generator.integers(0, np.asarray(space.nvec), (rows, len(space.nvec)))


def same(ours: Array | None, theirs: Array | None) -> bool:
    """Of arrays, dicts of them, or nothing: equal in kind, dtype and every bit."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in theirs)
    if isinstance(ours, dict) or isinstance(theirs, dict):
        return False
    return ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
