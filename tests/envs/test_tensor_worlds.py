"""Worlds on torch: the NumPy vector's numbers, and positions that either continues."""

import numpy as np
import pytest
import torch

from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Discrete
from rlstudio.envs.worlds.catalog import WORLDS, make_world
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.envs.worlds.tensor import TensorVecEnv

B = 16


def actions_for(world, steps):
    rng = np.random.default_rng(0)
    if isinstance(world.spaces.action, Discrete):
        return rng.integers(0, world.spaces.action.n, (steps, B))
    return rng.uniform(*world.spaces.action.bounds(), (steps, B, *world.spaces.action.shape)).astype(np.float32)


@pytest.mark.parametrize("id", WORLDS)
def test_float64_tensors_follow_numpy(id):
    world = make_world(id, {})
    tensor, native = TensorVecEnv(world, B, 3, limit=60, dtype=torch.float64), NativeVecEnv(world, B, 3, limit=60)
    np.testing.assert_allclose(tensor.reset(), native.reset(), rtol=1e-6)
    for actions in actions_for(world, 150):
        ours, theirs = tensor.step(torch.as_tensor(actions)), native.step(actions)
        for left, right in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
        assert np.array_equal(ours.terminated, theirs.terminated)
        assert np.array_equal(ours.truncated, theirs.truncated)
        assert ours.observations.dtype == ours.rewards.dtype == torch.float32
    assert np.array_equal(tensor.position()["episodes"], native.position()["episodes"])
    assert tensor.position()["episodes"].min() > 0


@pytest.mark.parametrize("id", WORLDS)
def test_a_position_is_continued_bit_for_bit(id):
    world = make_world(id, {})
    first, second = TensorVecEnv(world, B, 3), TensorVecEnv(world, B, 3)
    first.reset()
    actions = torch.as_tensor(actions_for(world, 90))
    for row in actions[:45]:
        now = first.step(row).observations
    assert torch.equal(second.seek(first.position()), now)
    for row in actions[45:]:
        for left, right in zip(first.step(row)[:5], second.step(row)[:5], strict=True):
            assert torch.equal(left, right)


def test_foreign_positions_are_refused():
    chain, pole = (TensorVecEnv(make_world(id, {}), B, 3) for id in ("rlstudio/Chain-v0", "CartPole-v1"))
    with pytest.raises(Incompatible, match="rlstudio/Chain-v0"):
        pole.seek(chain.position())
    with pytest.raises(Incompatible, match="envs does not fit"):
        TensorVecEnv(make_world("CartPole-v1", {}), 2, 3).seek(pole.position())
