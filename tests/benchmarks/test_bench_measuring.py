"""The side that measures nothing learns by the same loss, and computes nothing for metrics alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks import measuring
from rlstudio.experiment.training.epoch_clock import EpochClock

asked: list[str] = []


def noted(name: str, value: Tensor) -> Tensor:
    asked.append(name)
    return value


def a_loss(values: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    loss = noted("loss", values.square().mean())
    largest = noted("largest", values.max())
    with torch.no_grad():
        spread = noted("spread", values.std())
    return loss, {"loss": loss.detach(), "relative": spread / largest}


def test_a_loss_without_its_metrics_is_the_same_loss() -> None:
    values = torch.tensor([1.0, 2.0, 4.0])
    whole, metrics = a_loss(values)
    assert (metrics.keys(), asked) == ({"loss", "relative"}, ["loss", "largest", "spread"])
    asked.clear()
    bare, nothing = measuring.unmeasured(a_loss)(values)
    assert (bare, nothing, asked) == (whole, {}, ["loss"])


def test_what_is_switched_off_comes_back() -> None:
    before = {(module, name): getattr(module, name) for module, name in measuring.LOSSES}, EpochClock.take
    with measuring.not_measuring():
        assert all(getattr(module, name) is not before[0][module, name] for module, name in measuring.LOSSES)
        assert EpochClock().take() == {}
    assert ({(module, name): getattr(module, name) for module, name in measuring.LOSSES}, EpochClock.take) == before


def test_the_cost_is_that_of_neighbours() -> None:
    """A machine that becomes slower on the way is not a cost."""
    seconds = [value * (1 + pair) for pair in range(20) for value in (1.01, 1.0)]
    assert measuring.cost(seconds)[0] == pytest.approx(0.01)
