"""The means of an epoch: the same to the last bit wherever they were summed up, saved and gone on with."""

from __future__ import annotations

import pytest
import torch

from rlstudio.core.contracts import Metrics
from rlstudio.experiment.training.position import FOLD, Position

STEPS = 2 * FOLD + 9


def metrics_of(step: int) -> Metrics:
    """Of sizes that make the order of additions show."""
    values = torch.rand(3, generator=torch.Generator().manual_seed(step)) * 10.0 ** (step % 7)
    return {"loss": values[0], "kl": values[1], "norm": values[2].double()}


def added_one_by_one() -> dict[str, float]:
    """The mean that is promised, in plain numbers."""
    sums = dict.fromkeys(sorted(metrics_of(0)), 0.0)
    for step in range(STEPS):
        for name, value in metrics_of(step).items():
            sums[name] += value.item()
    return {name: total / STEPS for name, total in sums.items()}


@pytest.mark.parametrize("cuts", [[], [1], [FOLD - 1, FOLD, FOLD + 1], [FOLD], range(STEPS)], ids=repr)
def test_the_means_are_those_of_steps_added_one_by_one(cuts: list[int]) -> None:
    position = Position()
    for step in range(STEPS):
        if step in cuts:
            state, position = position.state_dict(), Position()
            position.load_state_dict(state)
        position.add(metrics_of(step))
    assert position.ticks == STEPS
    assert position._means() == added_one_by_one()
    assert position._means() == {}


def test_asking_for_the_state_changes_nothing() -> None:
    position = Position()
    for step in range(STEPS):
        position.add(metrics_of(step))
        assert position.state_dict() == position.state_dict()
    assert position._means() == added_one_by_one()


def test_a_step_without_metrics_is_none() -> None:
    position = Position()
    position.add(metrics_of(0))
    position.add({})
    assert (position.latest, position.ticks) == (None, 1)
