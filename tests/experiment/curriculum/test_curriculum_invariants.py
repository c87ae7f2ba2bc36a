"""Whatever happens: weights sum to one, ranges stay inside their limits, and a stored state has the same future."""

from __future__ import annotations

import json
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.envs.params.draw import Draw, constants
from rlstudio.experiment.curriculum.config import CurriculumConfig
from rlstudio.experiment.curriculum.curriculum import Curriculum, new_curriculum
from rlstudio.experiment.curriculum.episodes import Episodes
from support.examples import examples

GATE = {"metric": "return", "at_least": 0.5, "window": 5, "min_episodes": 2, "patience": 2}
RANGE = {"start": [0.0, 0.5], "limits": [-2.0, 1.0], "step": 0.7}
SECTIONS = {
    "stages": {
        "stages": [
            {"name": "one", "params": {"x": 1.0}, "gate": GATE},
            {"name": "two", "params": {"x": {"uniform": [1.0, 2.0]}}, "gate": GATE, "keep": 0.3, "demote_below": 0.2},
            {"name": "three", "params": {"x": 3.0}, "gate": GATE, "keep": 0.7, "demote_below": 0.1, "min_steps": 200},
        ]
    },
    "anneal": {"anneal": {"start": {"x": {"uniform": [0, 0]}}, "end": {"x": {"uniform": [-2, 1]}}, "over": 0.7}},
    "levels": {"levels": {"count": 6, "parameter": "x"}, "success": {"at_least": 0.5}},
    "regret": {"levels": {"count": 6, "parameter": "x", "score": "regret", "replay": 0.9}},
    "adr": {"adr": {"parameters": {"x": RANGE}, "metric": "return", "widen_at": 0.7, "narrow_at": 0.3, "buffer": 3}},
}

EPOCH = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.4, 1.0, float("nan")])), max_size=8)


def new(kind: str) -> Curriculum:
    return new_curriculum(CurriculumConfig(**SECTIONS[kind]), constants({"x": 0.0, "y": 5.0}), planned_steps=1000)


def episodes(curriculum: Curriculum, drawn: list[tuple[int, float]]) -> Episodes:
    """Of components that the Draw of the moment has."""
    n, components = len(drawn), len(curriculum.draw.components)
    places = [place % components for place, _ in drawn]
    return Episodes([value for _, value in drawn], [1] * n, {}, places, [curriculum.draw.version] * n)


def check(draw: Draw) -> None:
    assert isclose(sum(component.weight for component in draw.components), 1.0, rel_tol=1e-9)
    assert all(component.weight >= 0 for component in draw.components)
    assert set(draw.names) == {"x", "y"}
    for component in draw.components:
        low, high = component.params["x"].range
        assert -2.0 <= low <= high <= 5.0
        assert component.params["y"].range == (5.0, 5.0)
    assert Draw.from_json(json.loads(json.dumps(draw.to_json()))) == draw


def stored(curriculum: Curriculum) -> dict:
    """As a checkpoint gives it back: arrays, and what JSON holds."""
    state = curriculum.state_dict()
    return {name: v.copy() if isinstance(v, np.ndarray) else json.loads(json.dumps(v)) for name, v in state.items()}


@pytest.mark.parametrize("kind", SECTIONS)
@examples(25)
@given(epochs=st.lists(EPOCH, min_size=1, max_size=12), cut=st.integers(0, 11))
def test_whatever_happens(kind: str, epochs: list, cut: int) -> None:
    curriculum, other = new(kind), None
    for number, drawn in enumerate(epochs):
        if number == cut:
            other = new(kind)
            other.load_state_dict(stored(curriculum))
            assert other.draw == curriculum.draw
        before = curriculum.draw
        outcome = curriculum.update(episodes(curriculum, drawn), 100 * (number + 1))
        check(curriculum.draw)
        assert curriculum.draw.version in (before.version, before.version + 1)
        if curriculum.draw.components != before.components:
            assert curriculum.draw.version == before.version + 1
        if other is not None:
            assert other.update(episodes(other, drawn), 100 * (number + 1)) == outcome
            assert other.draw == curriculum.draw
            assert str(other.metrics()) == str(curriculum.metrics())
