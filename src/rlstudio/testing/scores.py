"""What every score promises: a number for each sequence or -inf, each for itself, the same for the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from rlstudio.core.config import parse
from rlstudio.core.contracts import Score
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.planners.build import build_score
from rlstudio.planners.config import ScoreConfig
from rlstudio.testing.worlds import CANDIDATES, ENVS, NUMBERS, facts, first_observations, sequences


class ScoreContract:
    """The contract of a score as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Name of the score."""

    settings: ClassVar[Mapping[str, object]] = {}
    """Its own, where it needs some."""

    env_id: ClassVar[str] = NUMBERS
    """The world whose sequences it scores."""

    def make(self, gamma: float = 0.9) -> Score:
        cfg = parse(ScoreConfig, {"score": {"kind": self.part, **self.settings}})
        value = lambda observations: -observations[..., 0].abs()  # noqa: E731
        return build_score(cfg, analytic_dynamics(self.env_id), self.env_id, gamma=gamma, own=value)

    def actions(self) -> torch.Tensor:
        return sequences(facts(self.env_id).spaces.action)

    def test_it_scores_each_sequence(self) -> None:
        scores = self.make()(first_observations(self.env_id), self.actions())
        assert scores.shape == (ENVS, CANDIDATES)
        assert torch.isfinite(scores).all()
        assert not scores.requires_grad

    def test_each_sequence_is_scored_for_itself(self) -> None:
        score, observations, actions = self.make(), first_observations(self.env_id), self.actions()
        together = score(observations, actions)
        for env in range(ENVS):
            for candidate in range(CANDIDATES):
                alone = score(observations[env : env + 1], actions[env : env + 1, candidate : candidate + 1])
                torch.testing.assert_close(alone[0, 0], together[env, candidate], rtol=1e-4, atol=1e-4)

    def test_it_is_pure(self) -> None:
        score, observations, actions = self.make(), first_observations(self.env_id), self.actions()
        before = observations.clone(), actions.clone()
        assert torch.equal(score(observations, actions), score(observations, actions))
        assert torch.equal(observations, before[0])
        assert torch.equal(actions, before[1])

    def test_returns_are_the_scores_with_gradients(self) -> None:
        score, observations, actions = self.make(), first_observations(self.env_id), self.actions()
        if actions.is_floating_point():
            actions.requires_grad_()
        returns = score.returns(observations, actions)
        torch.testing.assert_close(returns.detach(), score(observations, actions.detach()), rtol=1e-4, atol=1e-4)
        assert returns.requires_grad == actions.requires_grad

    def test_what_is_no_number_counts_for_nothing(self) -> None:
        observations = torch.full_like(first_observations(self.env_id), torch.nan)
        assert torch.isneginf(self.make()(observations, self.actions())).all()

    def test_its_model_and_discount_are_those_it_was_given(self) -> None:
        score = self.make(gamma=0.5)
        assert score.gamma == 0.5
        states = score.dynamics.start(first_observations(self.env_id), CANDIDATES)
        assert score.step(states, self.actions()[:, :, 0]).rewards.shape == states.shape[:3]
        worth = score.worth(states)
        assert worth is None or worth.shape == states.shape[:3]
