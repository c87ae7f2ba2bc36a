"""Every planner, model of the world and score in the catalogs keeps the contract of its kind."""

from __future__ import annotations

from rlstudio.core.catalog import DYNAMICS, PLANNERS, SCORES
from rlstudio.testing import DynamicsContract, PlannerContract, ScoreContract
from rlstudio.testing.worlds import CHOICES
from support.contracts import suites

WORLDS = {"mcts": {"worlds": (CHOICES,)}}
SMALL = {"ensemble": {"settings": {"members": 2, "hidden_sizes": [8]}}, "mlp": {"settings": {"hidden_sizes": [8]}}}

planners = {name: WORLDS.get(name, {}) for name in PLANNERS.names() if name != "diffusion"}  # that one needs a prior
globals().update(suites(PlannerContract, planners))
globals().update(suites(DynamicsContract, {name: SMALL.get(name, {}) for name in DYNAMICS.names()}))
globals().update(suites(ScoreContract, {name: {} for name in SCORES.names()}))


class TestEquationsOfChoices(DynamicsContract):
    part = "analytic"
    env_id = CHOICES


class TestEnsembleOfChoices(DynamicsContract):
    part = "ensemble"
    env_id = CHOICES
    settings = {"members": 2, "hidden_sizes": [8], "reward": "known"}


class TestReturnsOfChoices(ScoreContract):
    part = "returns"
    env_id = CHOICES
