"""Of every algorithm and every kind of Model: what a checkpoint is loaded as acts bit for bit as what was trained, and
neither an environment nor a trainer is built for it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from rlstudio.core.catalog import ALGOS
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, Space
from rlstudio.experiment.checkpoint.agent_spec import describe_agent, read_agent
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Loaded
from rlstudio.experiment.checkpoint.snapshot import capture
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.run import checkpoint_agent
from rlstudio.experiment.training.build import build_env, build_trainer
from support import tiny_runs
from support.export_toys import CASES, PLANNING, trained_trainer

ROWS, STEPS = 3, 4


@cache
def planner(algo: str):
    """A planning algorithm after a few updates."""
    cfg = tiny_runs.config(algo, "native")
    env = build_env(cfg)
    trainer = build_trainer(cfg, env)
    for _ in range(4):
        trainer.progress(0.0)
        trainer.train_step()
    env.close()
    return trainer, cfg


EVERY = [
    *(pytest.param(lambda id=case.id: trained_trainer(id), id=case.id) for case in CASES),
    *(pytest.param(lambda algo=algo: planner(algo), id=algo) for algo in PLANNING),
]


def test_every_algorithm_is_here():
    assert {*(case.algo for case in CASES), *PLANNING} == set(ALGOS.names())


@pytest.fixture
def alone(monkeypatch):
    """An environment or a trainer is a failure."""
    for name in ("build_env", "build_trainer"):
        monkeypatch.setattr(checkpoint_agent, name, lambda *_, name=name: pytest.fail(f"{name} was called"))


def written(trainer, folder) -> Loaded:
    """As a run writes it, through the disk and back."""
    fields = {"agent": describe_agent(trainer, trainer.agent.spaces)}
    with FileLease(folder) as lease:
        content = capture(trainer, {}, seed=0, attempt=0, meta={})
        info = Checkpoints(folder, "r", lease).save(content, step=1, manifest=fields)
    return Checkpoints(folder, "r", lease=None).load(info.step)


def observed(space: Space, generator: np.random.Generator) -> Any:
    """Rows that such a space may show."""
    if isinstance(space, Dict):
        return {name: _leaf(entry, generator) for name, entry in space.items()}
    return _leaf(space, generator)


def _leaf(space: Leaf, generator: np.random.Generator) -> np.ndarray:
    if isinstance(space, Box):
        shape = (ROWS, *space.shape)
        if space.dtype == "uint8":
            return generator.integers(0, 256, shape, np.uint8)
        return generator.standard_normal(shape, np.float32)
    if isinstance(space, Discrete):
        return generator.integers(0, space.n, ROWS)
    return generator.integers(0, np.asarray(space.nvec), (ROWS, len(space.nvec)))


def same(ours: Any, theirs: Any) -> bool:
    """Of arrays, dicts of them, or nothing: equal in kind, dtype and every bit."""
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in theirs)
    if theirs is None:
        return ours is None
    return ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("make", EVERY)
def test_it_acts_bit_for_bit_as_what_was_trained(make, tmp_path, alone):
    trainer, cfg = make()
    loaded = checkpoint_agent.agent_of(cfg, written(trainer, tmp_path)).agent
    trained = trainer.agent
    assert type(loaded) is type(trained)
    assert (loaded.spaces, loaded.acting, loaded.remembers) == (trained.spaces, trained.acting, trained.remembers)
    generator = np.random.default_rng(3)
    for noisy in (False, True):
        noises = [agent.noise(np.random.default_rng(5), STEPS, ROWS) for agent in (loaded, trained)]
        carries = [None, None]
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


@pytest.mark.parametrize("make", EVERY)
def test_what_is_described_is_described_again_after_reading(make, tmp_path):
    trainer, _ = make()
    loaded = written(trainer, tmp_path)
    spec = read_agent(loaded.info)
    assert spec.spaces == trainer.agent.spaces
    assert (spec.model is None) == (trainer.agent.acting == "planner")
    assert loaded.info.fields["agent"] == describe_agent(trainer, trainer.agent.spaces)
