"""Worlds on torch give the NumPy vector's numbers."""

import numpy as np
import pytest
import torch

from rlstudio.core.catalog import WORLDS
from rlstudio.core.spaces import Discrete
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.native import NativeVecEnv
from support.tensor_env import TensorEnv

B = 16


def actions_for(world, steps):
    rng = np.random.default_rng(0)
    if isinstance(world.spaces.action, Discrete):
        return rng.integers(0, world.spaces.action.n, (steps, B))
    return rng.uniform(*world.spaces.action.bounds(), (steps, B, *world.spaces.action.shape)).astype(np.float32)


@pytest.mark.parametrize("id", sorted(id for id in WORLDS.builtin if WORLDS.load(id).agents == 1))
def test_float64_tensors_follow_numpy(id):
    world = make_world(id, {})
    tensor, native = TensorEnv(world, B, 3, 60, torch.float64), NativeVecEnv(world, B, 3, limit=60)
    np.testing.assert_allclose(tensor.reset(), native.reset(), rtol=1e-6)
    for actions in actions_for(world, 75):
        ours, theirs = tensor.step(torch.as_tensor(actions)), native.step(actions)
        for left, right in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
        assert np.array_equal(ours.terminated, theirs.terminated)
        assert np.array_equal(ours.truncated, theirs.truncated)
        assert ours.observations.dtype == ours.rewards.dtype == torch.float32
    assert np.array_equal(tensor.episodes, native.position()["episodes"])
    assert tensor.episodes.min() > 0
