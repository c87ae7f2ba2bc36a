"""The flat Optimizers: equal to torch's Adam and RMSprop, and a skipped step changes nothing."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn

from rlstudio.ops.flat import Flat, flatten
from rlstudio.ops.optimizer import Optimizer, RMSprop
from rlstudio.ops.target import Target


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 2))


def loss_of(model: nn.Module, scale: float = 10.0) -> torch.Tensor:
    return model(torch.linspace(-1, 1, 12).view(4, 3)).square().sum() * scale


def snapshot(optimizer: Optimizer) -> list[torch.Tensor]:
    return [x.clone() for x in (optimizer.flat.data, optimizer.mean, optimizer.square, optimizer.count)]


RULES = [
    pytest.param(Optimizer, lambda parameters: torch.optim.Adam(parameters, 1e-2, eps=1e-8), id="adam"),
    pytest.param(RMSprop, lambda parameters: torch.optim.RMSprop(parameters, 1e-2, alpha=0.99, eps=1e-5), id="rmsprop"),
]
both = pytest.mark.parametrize("rule", [Optimizer, RMSprop])


@pytest.mark.parametrize(("rule", "of_torch"), RULES)
@pytest.mark.parametrize("max_grad_norm", [None, 0.5, 1e9])
def test_equals_torch_with_clipping(rule, of_torch, max_grad_norm):
    ours, theirs = net(), net()
    optimizer = rule(ours, 1e-2, max_grad_norm)
    reference = of_torch(theirs.parameters())
    for _ in range(25):
        norm = optimizer.step(loss_of(ours))
        reference.zero_grad()
        loss_of(theirs).backward()
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), max_grad_norm or 1e30)
        reference.step()
        assert norm.item() == pytest.approx(expected.item(), rel=1e-4)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_rmsprop_by_hand():
    """One weight, gradients 3 and 4, lr 1, alpha 1/2, eps 1: s = 4.5, then 10.25."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = RMSprop(model, 1.0, alpha=0.5, eps=1.0)
    expected = 0.0
    for gradient, square in ((3.0, 4.5), (4.0, 10.25)):
        optimizer.step(model(torch.full((1, 1), gradient)).sum())
        expected -= gradient / (math.sqrt(square) + 1)
        assert model.weight.item() == pytest.approx(expected)
        assert optimizer.square[0].item() == pytest.approx(square)


@both
def test_one_step_changes_weights_and_a_skipped_one_changes_nothing(rule):
    model = net()
    optimizer = rule(model, 1e-2, 0.5)
    start = snapshot(optimizer)
    optimizer.step(loss_of(model))
    changed = snapshot(optimizer)
    assert not torch.equal(start[0], changed[0])
    optimizer.step(loss_of(model), skip=torch.tensor(True))
    assert all(torch.equal(a, b) for a, b in zip(changed, snapshot(optimizer), strict=True))
    assert optimizer.skipped.item() == 0  # asked for, not a fault
    assert optimizer.calls == 2


@both
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(rule, poison):
    model = net()
    optimizer = rule(model, 1e-2, 0.5)
    optimizer.step(loss_of(model))
    before = snapshot(optimizer)
    optimizer.step(loss_of(model) * poison)
    assert all(torch.equal(a, b) for a, b in zip(before, snapshot(optimizer), strict=True))
    assert optimizer.skipped.item() == 1
    optimizer.step(loss_of(model))
    assert torch.isfinite(optimizer.flat.data).all()


@both
def test_state_round_trip_continues_bit_for_bit(rule):
    straight = net()
    optimizer = rule(straight, 1e-2, 0.5)
    for _ in range(5):
        optimizer.step(loss_of(straight))
    resumed = deepcopy(net())
    resumed.load_state_dict(straight.state_dict())
    again = rule(resumed, 1.0, 0.5)
    again.load_state_dict(
        {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in optimizer.state_dict().items()}
    )
    for _ in range(5):
        optimizer.step(loss_of(straight))
        again.step(loss_of(resumed))
    assert torch.equal(optimizer.flat.data, again.flat.data)
    assert again.calls == 10


def test_parameters_stay_views_after_loading_and_start_aligned():
    model = net()
    flat = flatten(model)
    assert flatten(model) is flat
    model.load_state_dict(net().state_dict())
    for parameter in model.parameters():
        assert parameter.data_ptr() % 64 == 0
        assert flat.data.data_ptr() <= parameter.data_ptr() < flat.data.data_ptr() + 4 * flat.data.numel()


def test_a_parameter_in_two_flat_buffers_is_refused():
    model = net()
    flatten(model)
    with pytest.raises(ValueError, match="already in a flat buffer"):
        Flat(nn.Sequential(model[0]))


def test_target_follows_only_when_told():
    model = net()
    flatten(model)
    target = Target(model)
    with torch.no_grad():
        model[0].weight.add_(1.0)
    target.refresh(every=2)
    assert not torch.equal(target.model[0].weight, model[0].weight)
    target.refresh(every=2)
    assert torch.equal(target.model[0].weight, model[0].weight)
    with torch.no_grad():
        model[0].weight.add_(1.0)
    before = target.model[0].weight.clone()
    target.refresh(tau=0.25)
    assert torch.allclose(target.model[0].weight, before + 0.25)
    assert not any(p.requires_grad for p in target.model.parameters())
