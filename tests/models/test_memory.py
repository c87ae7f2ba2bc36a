"""GRU and LSTM: torch's numbers where there are no resets, exact gradients, and episodes that do not see each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rlstudio.core.rng import Rng
from rlstudio.models.networks.memory import GRU, LSTM, MEMORIES, Memory, _UnrolledGRU, _UnrolledLSTM
from support.examples import examples

TORCH_ORDER = {GRU: (0, 1, 2), LSTM: (1, 2, 3, 0)}  # torch has r, z, n and i, f, g, o


def draws(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def flags(seed: int, *shape: int, share: float) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def reference(memory: Memory, which: int) -> nn.Module:
    """Torch's layer with the weights of one of the memories."""
    layer = {GRU: nn.GRU, LSTM: nn.LSTM}[type(memory)](memory.inputs.in_features, memory.size)
    for own, name in ((memory.inputs, "ih"), (memory.recurrent, "hh")):
        for kind in ("weight", "bias"):
            blocks = getattr(own, kind).detach().view(memory.count, memory.gates, memory.size, -1)[which]
            ordered = blocks[list(TORCH_ORDER[type(memory)])].flatten(0, 1)
            getattr(layer, f"{kind}_{name}_l0").data.copy_(ordered if kind == "weight" else ordered[:, 0])
    return layer


@pytest.mark.parametrize("kind", MEMORIES)
def test_without_resets_it_is_torchs_layer(kind):
    memory = MEMORIES[kind](3, 5, 2, Rng(0))
    memory.recurrent.bias.data.copy_(draws(1, len(memory.recurrent.bias)))
    x, carry = draws(0, 7, 4, 3), {part: draws(i, 4, 2, 5) for i, part in enumerate(memory.parts)}
    shown, after = memory(x, carry, torch.zeros(7, 4, dtype=torch.bool))
    for which in range(2):
        first = tuple(carry[part][:, which].unsqueeze(0) for part in memory.parts)
        expected, last = reference(memory, which)(x, first if kind == "lstm" else first[0])
        torch.testing.assert_close(shown[:, :, which], expected, atol=1e-6, rtol=1e-5)
        for part, rows in zip(memory.parts, last if kind == "lstm" else (last,), strict=True):
            torch.testing.assert_close(after[part][:, which], rows[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("node", "gates", "parts"), [(_UnrolledGRU, 3, 1), (_UnrolledLSTM, 4, 2)])
def test_the_gradient_is_the_derivative(node, gates, parts):
    wide = {"dtype": torch.float64}
    x, weight, bias = (
        draws(0, 3, 2, 3, gates * 4, **wide),
        draws(1, 2, gates * 4, 4, **wide),
        draws(2, 2, gates * 4, **wide),
    )
    keep = (~flags(3, 3, 1, 3, 1, share=0.3)).double()
    carry = [draws(4 + i, 2, 3, 4, **wide) for i in range(parts)]

    def shown(x, weight, bias):
        out = node.apply(x, keep, weight, bias, *carry)
        return out if parts == 1 else out[0]

    inputs = tuple(tensor.requires_grad_() for tensor in (x, weight, bias))
    assert torch.autograd.gradcheck(shown, inputs)


@given(st.sampled_from(sorted(MEMORIES)), st.integers(1, 9), st.integers(1, 4), st.floats(0, 1), st.integers(0, 10**6))
@examples(30)
def test_an_unroll_is_its_steps_one_by_one_whatever_resets(kind, steps, rows, share, seed):
    memory = MEMORIES[kind](2, 3, 2, Rng(seed))
    x, resets = draws(seed, steps, rows, 2), flags(seed, steps, rows, share=share)
    carry = {part: draws(seed + i, rows, 2, 3) for i, part in enumerate(memory.parts)}
    shown, after = memory(x, carry, resets)
    for t in range(steps):
        carry = {part: held * (~resets[t]).float()[:, None, None] for part, held in carry.items()}
        one, carry = memory(x[t : t + 1], carry, torch.zeros(1, rows, dtype=torch.bool))
        torch.testing.assert_close(shown[t : t + 1], one, atol=1e-6, rtol=1e-5)
    for part in memory.parts:
        torch.testing.assert_close(after[part], carry[part], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", MEMORIES)
def test_gradients_flow_through_time_and_not_over_a_reset(kind):
    memory = MEMORIES[kind](2, 3, 2, Rng(0))
    x = draws(0, 6, 2, 2).requires_grad_()
    resets = torch.zeros(6, 2, dtype=torch.bool)
    resets[3, 1] = True  # the second env starts an episode at step 3
    shown, _ = memory(x, memory.empty(2), resets)
    (grad,) = torch.autograd.grad(shown[5].sum(), x)
    reaches = grad.abs().amax(-1) > 0
    assert reaches[:, 0].all()
    assert reaches[:, 1].tolist() == [False] * 3 + [True] * 3


def test_weights_come_from_the_seed_alone_and_an_lstm_starts_by_keeping():
    torch.manual_seed(0)
    one = LSTM(2, 4, 2, Rng(5)).state_dict()
    torch.manual_seed(1)
    assert all(torch.equal(one[name], tensor) for name, tensor in LSTM(2, 4, 2, Rng(5)).state_dict().items())
    assert one["inputs.bias"].view(2, 4, 4)[:, 2].eq(1).all()
    block = one["recurrent.weight"][:4]
    torch.testing.assert_close(block @ block.T, torch.eye(4), atol=1e-6, rtol=0)
    assert not torch.equal(block, one["recurrent.weight"][16:20])  # the two memories differ
