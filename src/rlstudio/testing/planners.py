"""What every planner promises: actions that the world takes, the same for the same noise and carry, each
environment for itself, and numbers whatever the score says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstudio.core.config import Config, parse
from rlstudio.core.contracts import Planned, Planner
from rlstudio.core.model.policies import PlanPolicy
from rlstudio.core.spaces import Box, Discrete
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.models.policies.distributions import Categorical, Gaussian, Policy
from rlstudio.planners.build import build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.score import ReturnScore
from rlstudio.testing.worlds import CHOICES, ENVS, NUMBERS, facts, first_observations


class _Section(Config):
    planner: PlannerConfig


class PlannerContract:
    """The contract of a planner as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Name of the planner."""

    settings: ClassVar[Mapping[str, object]] = {}
    """Its own, that make it small."""

    worlds: ClassVar[tuple[str, ...]] = (NUMBERS, CHOICES)
    """Where it is tried; a planner of one kind of actions names the world that has them."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize("env_id", self.worlds)

    def make(self, env_id: str) -> Planner:
        small = {"horizon": 4, "candidates": 8, "simulations": 8, "policy_candidates": 2}
        section = parse(_Section, {"planner": {"kind": self.part, **small, **self.settings}})
        return build_planner(section.planner, facts(env_id).spaces.action, self.policy(env_id))

    def policy(self, env_id: str) -> PlanPolicy:
        """One that likes nothing better than anything else."""
        actions = facts(env_id).spaces.action

        def act(observations: Tensor) -> Policy:
            if isinstance(actions, Discrete):
                return Categorical(observations.new_zeros(*observations.shape[:-1], actions.n))
            assert isinstance(actions, Box)
            mean = observations.new_zeros(*observations.shape[:-1], actions.size)
            return Gaussian(mean, mean - 1.0)

        return act

    def score(self, env_id: str) -> ReturnScore:
        return ReturnScore(analytic_dynamics(env_id), gamma=0.99)

    def noise(self, planner: Planner) -> Tensor:
        return planner.noise(np.random.default_rng(0), ENVS)

    def planned(self, env_id: str) -> Planned:
        planner = self.make(env_id)
        return planner.plan(first_observations(env_id), self.score(env_id), None, self.noise(planner))

    def test_its_actions_are_such_as_the_world_takes(self, env_id: str) -> None:
        actions, space = self.planned(env_id).actions, facts(env_id).spaces.action
        if isinstance(space, Discrete):
            assert actions.shape == (ENVS,)
            assert not actions.is_floating_point()
            assert ((actions >= 0) & (actions < space.n)).all()
        else:
            assert isinstance(space, Box)
            assert actions.shape == (ENVS, space.size)
            assert (actions.abs() <= 1.0).all()

    def test_the_same_noise_and_carry_give_the_same_plan(self, env_id: str) -> None:
        planner, score, observations = self.make(env_id), self.score(env_id), first_observations(env_id)
        carry: dict[str, Tensor] | None = None
        for _ in range(3):
            noise = self.noise(planner)
            first, second = (planner.plan(observations, score, carry, noise) for _ in range(2))
            assert torch.equal(first.actions, second.actions)
            assert first.carry.keys() == second.carry.keys()
            assert all(torch.equal(first.carry[name], second.carry[name]) for name in first.carry)
            carry = first.carry

    def test_no_carry_is_a_carry_of_zeros(self, env_id: str) -> None:
        planner, score, observations = self.make(env_id), self.score(env_id), first_observations(env_id)
        without = planner.plan(observations, score, None, self.noise(planner))
        empty = {name: torch.zeros_like(part) for name, part in without.carry.items()}
        with_empty = planner.plan(observations, score, empty, self.noise(planner))
        torch.testing.assert_close(without.actions, with_empty.actions)

    def test_what_is_carried_has_a_row_for_each_environment(self, env_id: str) -> None:
        assert all(len(part) == ENVS for part in self.planned(env_id).carry.values())

    def test_each_environment_is_planned_for_itself(self, env_id: str) -> None:
        planner, score, observations = self.make(env_id), self.score(env_id), first_observations(env_id)
        noise = self.noise(planner)
        together = planner.plan(observations, score, None, noise).actions
        for env in range(ENVS):
            alone = planner.plan(observations[env : env + 1], score, None, noise[env : env + 1]).actions
            torch.testing.assert_close(alone[0], together[env], rtol=1e-4, atol=1e-4)

    def test_noise_by_age_depends_on_the_age_alone(self, env_id: str) -> None:
        noise = self.make(env_id).noise
        ages = np.array([4, 0, 4])
        rows = noise.at_ages(ages)
        assert torch.equal(rows[0], rows[2])
        assert torch.equal(noise.at_ages(ages[1:]), rows[1:])

    def test_a_score_without_numbers_still_gives_an_action(self, env_id: str) -> None:
        planner = self.make(env_id)
        hopeless = ReturnScore(
            analytic_dynamics(env_id), reward=lambda observations, actions, after: after[..., 0] * torch.nan
        )
        planned = planner.plan(first_observations(env_id), hopeless, None, self.noise(planner))
        assert torch.isfinite(planned.actions.float()).all()

    def test_nothing_is_changed_and_no_global_generator_is_used(self, env_id: str) -> None:
        planner, observations = self.make(env_id), first_observations(env_id)
        noise, state = self.noise(planner), torch.get_rng_state()
        before = observations.clone(), noise.clone()
        planner.plan(observations, self.score(env_id), None, noise)
        assert torch.equal(observations, before[0])
        assert torch.equal(noise, before[1])
        assert torch.equal(torch.get_rng_state(), state)
