"""What every model of the world promises: shapes, the same answer to the same question, each candidate for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from rlstudio.algos.parts.dynamics import DynamicsConfig, build_dynamics
from rlstudio.core.config import Config, parse
from rlstudio.core.contracts import Dynamics, Rolling
from rlstudio.core.rng import Rng
from rlstudio.testing.worlds import CANDIDATES, ENVS, NUMBERS, facts, first_observations, sequences


class _Section(Config):
    dynamics: DynamicsConfig


class DynamicsContract:
    """The contract of a model of the world as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Name of the dynamics."""

    settings: ClassVar[Mapping[str, object]] = {}
    """Its own, that make it small."""

    env_id: ClassVar[str] = NUMBERS
    """The world it is a model of."""

    def make(self) -> Dynamics:
        section = parse(_Section, {"dynamics": {"kind": self.part, **self.settings}})
        return build_dynamics(section.dynamics, facts(self.env_id), Rng(0, "test"))

    def actions(self) -> torch.Tensor:
        return sequences(facts(self.env_id).spaces.action)

    @torch.no_grad()
    def test_it_starts_from_what_is_observed(self) -> None:
        dynamics, observations = self.make(), first_observations(self.env_id)
        states = dynamics.start(observations, CANDIDATES)
        assert states.shape[1:3] == (ENVS, CANDIDATES)
        assert all(torch.equal(states[:, :, 0], states[:, :, candidate]) for candidate in range(CANDIDATES))
        observed = dynamics.observe(states)
        wanted = observations[None, :, None].expand_as(observed)
        torch.testing.assert_close(observed, wanted, rtol=1e-4, atol=1e-4)

    @torch.no_grad()
    def test_a_step_gives_states_rewards_and_whether_it_goes_on(self) -> None:
        dynamics = self.make()
        states = dynamics.start(first_observations(self.env_id), CANDIDATES)
        outcome = dynamics.step(states, self.actions()[:, :, 0])
        assert outcome.states.shape == states.shape
        assert outcome.rewards.shape == outcome.continues.shape == states.shape[:3]
        assert torch.isfinite(outcome.states).all()
        assert torch.isfinite(outcome.rewards).all()
        assert ((outcome.continues >= 0) & (outcome.continues <= 1)).all()
        if dynamics.reward_range is not None:
            low, high = dynamics.reward_range
            assert ((outcome.rewards >= low - 1e-4) & (outcome.rewards <= high + 1e-4)).all()

    @torch.no_grad()
    def test_it_is_pure(self) -> None:
        dynamics, actions, state = self.make(), self.actions()[:, :, 0], torch.get_rng_state()
        states = dynamics.start(first_observations(self.env_id), CANDIDATES).clone()
        before = states.clone(), actions.clone()
        first, second = (dynamics.step(states, actions) for _ in range(2))
        assert all(torch.equal(left, right) for left, right in zip(first, second, strict=True))
        assert torch.equal(states, before[0])
        assert torch.equal(actions, before[1])
        assert torch.equal(torch.get_rng_state(), state)

    @torch.no_grad()
    def test_each_candidate_goes_its_own_way(self) -> None:
        dynamics, actions = self.make(), self.actions()[:, :, 0]
        states = dynamics.start(first_observations(self.env_id), CANDIDATES)
        together = dynamics.step(states, actions)
        alone = dynamics.step(states[:, 1:2, 2:3], actions[1:2, 2:3])
        for part, whole in zip(alone, together, strict=True):
            torch.testing.assert_close(part[:, 0, 0], whole[:, 1, 2], rtol=1e-4, atol=1e-5)

    @torch.no_grad()
    def test_a_quicker_way_is_the_same_way(self) -> None:
        dynamics, actions = self.make(), self.actions()
        if not isinstance(dynamics, Rolling):
            return
        states = dynamics.start(first_observations(self.env_id), CANDIDATES)
        quick = dynamics.rollout(states, actions)
        rewards, continues = [], []
        for chosen in actions.movedim(2, 0):
            states, reward, goes_on = dynamics.step(states, chosen)
            rewards.append(reward)
            continues.append(goes_on)
        torch.testing.assert_close(quick.states, states, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(quick.rewards, torch.stack(rewards), rtol=1e-4, atol=1e-4)
        if quick.continues is None:
            assert (torch.stack(continues) == 1).all()
        else:
            torch.testing.assert_close(quick.continues, torch.stack(continues), rtol=1e-4, atol=1e-4)
