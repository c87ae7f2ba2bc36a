"""The NumPy step of a memory is the Model's own step, and sees every change of the weights."""

import numpy as np
import pytest
import torch

from rlstudio.agents.memory_kernels import NumpyMemoryKernel, TorchMemoryKernel, memory_kernel
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces
from rlstudio.models.build import build_policy_value
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.flat import flatten

LINE = Box((3,), "float32", (-1,), (1,))


def built(kind: str, observation=LINE, **fields):
    return build_policy_value(
        Spaces(observation, Discrete(4)),
        NetworkConfig(hidden_sizes=(16,), memory=kind, memory_size=6, **fields),
        Rng(0),
    )


def shake(model) -> None:
    data = flatten(model).data
    data.add_(torch.randn(data.shape, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("rows", [1, 5])
def test_both_kernels_take_the_same_steps(kind, normalize, rows):
    model = built(kind, normalize_observations=normalize)
    numpy, torch_one = memory_kernel(model), TorchMemoryKernel(model)
    assert isinstance(numpy, NumpyMemoryKernel)
    shake(model)  # after the kernels were made: they hold views
    g, carries = np.random.default_rng(0), [None, None]
    if normalize:
        model.encoder.normalizer.update(torch.from_numpy(g.standard_normal((50, 3)).astype(np.float32) * 3 + 1))
    for _ in range(6):
        seen = g.standard_normal((rows, 3)).astype(np.float32)
        one, other = numpy(seen, carries[0]), torch_one(seen, carries[1])
        np.testing.assert_allclose(one[0], other[0], atol=2e-5)
        carries = [one[1], other[1]]
        assert list(carries[0]) == list(carries[1])
        for part, held in carries[0].items():
            assert held.shape == (rows, 2, 6)
            assert held.dtype == np.float32
            np.testing.assert_allclose(held, carries[1][part], atol=1e-5)


def test_a_step_changes_nothing_it_was_given():
    model = built("lstm")
    kernel = memory_kernel(model)
    seen = np.ones((2, 3), np.float32)
    _, carry = kernel(seen, None)
    kept = {part: held.copy() for part, held in carry.items()}
    kernel(seen, carry)
    assert all(np.array_equal(carry[part], kept[part]) for part in kept)
    assert all(np.array_equal(kernel(seen, None)[1][part], kept[part]) for part in kept)


def test_the_lightest_kernel_that_fits():
    mask = Box((4,), "uint8", (0,), (1,))
    assert memory_kernel(built("gru", Dict((("action_mask", mask), ("line", LINE))))).name == "numpy"
    assert memory_kernel(built("gru", Dict((("line", LINE), ("room", Discrete(3)))))).name == "torch"
    assert memory_kernel(built("gru", activation="gelu")).name == "torch"


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_large_inputs_saturate_without_a_warning(kind):
    model = built(kind)
    shake(model)
    with np.errstate(all="raise", under="ignore"):
        outputs, carry = memory_kernel(model)(np.full((1, 3), 1e6, np.float32), None)
    assert np.isfinite(outputs).all()
    assert all(np.isfinite(held).all() for held in carry.values())
