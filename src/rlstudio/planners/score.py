"""ReturnScore: what a sequence of actions is worth, by rolling it out in a model.

    G = sum_{t<H} gamma^t c_t r_t + gamma^H c_H V(s_H)          c_t: whether the episode still goes on before step t

Dims: E environments, K candidates, H steps of horizon, P particles of an uncertain model. No loop over environments or
candidates; an episode that ends is masked, never left. A score that is not a number is the lowest there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rlstudio.core.contracts import Dynamics, Outcome, Rolling, SequenceOutcome
from rlstudio.core.model.policies import PlanValue
from rlstudio.planners.config import ScorePartConfig

Reward = Callable[[Tensor, Tensor, Tensor], Tensor]
"""observations, actions, following observations -> a reward to plan with instead of the model's, [...]"""


class Terms(NamedTuple):
    """The parts of a score."""

    dynamics: Dynamics
    gamma: float = 1.0
    value: PlanValue | None = None
    reward: Reward | None = None
    pessimism: float = 0.0  # standard deviations over particles that are taken off the mean


class ReturnScore:
    """Implements `core.contracts.Score`."""

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        gamma: float = 1.0,
        value: PlanValue | None = None,
        reward: Reward | None = None,
        pessimism: float = 0.0,
    ) -> None:
        """The parameters are `Terms`."""
        self.dynamics = dynamics
        self.gamma = gamma
        self.value = value
        self.reward = reward
        self.pessimism = pessimism
        self._bounds = _value_bounds(dynamics.reward_range, gamma)

    @torch.no_grad()
    def __call__(self, observations: Tensor, actions: Tensor) -> Tensor:
        """observations [E, O], actions [E, K, H, ...] -> scores [E, K]."""
        scores = self.returns(observations, actions)
        return torch.where(torch.isfinite(scores), scores, -torch.inf)

    def returns(self, observations: Tensor, actions: Tensor) -> Tensor:
        """The same with gradients, and with whatever is not finite."""
        states, rewards, continues = self._rollout(self.dynamics.start(observations, actions.shape[1]), actions)
        alive = None
        if continues is not None:
            alive = continues.cumprod(0)  # after each step
            # Where an episode is over the model may say anything, also what is no number.
            rewards = torch.cat((rewards[:1], torch.where(alive[:-1] > 0, rewards[1:] * alive[:-1], 0.0)))
        if self.gamma != 1.0:
            discounts = rewards.new_tensor([self.gamma**step for step in range(len(rewards))])
            rewards = rewards * discounts.view(-1, 1, 1, 1)
        total = rewards.sum(0)
        worth = self.worth(states)
        if worth is not None:
            if alive is not None:
                worth = torch.where(alive[-1] > 0, worth * alive[-1], 0.0)
            total = total + self.gamma ** len(rewards) * worth
        return self._over_particles(total)

    def _rollout(self, states: Tensor, actions: Tensor) -> SequenceOutcome:
        """As `Rolling` has it."""
        if self.reward is None and isinstance(self.dynamics, Rolling):
            return self.dynamics.rollout(states, actions)
        rewards, continues = [], []
        for chosen in actions.movedim(2, 0).contiguous():  # step by step in memory as well
            states, reward, goes_on = self.step(states, chosen)
            rewards.append(reward)
            continues.append(goes_on)
        return SequenceOutcome(states, torch.stack(rewards), torch.stack(continues))

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        """One step of the model [P, E, K, ...], with the reward to plan with."""
        outcome = self.dynamics.step(states, actions)
        if self.reward is None:
            return outcome
        observed, after = self.dynamics.observe(states), self.dynamics.observe(outcome.states)
        return outcome._replace(rewards=self.reward(observed, actions, after))

    def worth(self, states: Tensor) -> Tensor | None:
        """The value of what comes after [P, E, K]; None without a value function. A value that promises more than the
        rewards allow would make a planner shun the end of an episode."""
        if self.value is None:
            return None
        worth = self.value(self.dynamics.observe(states))
        low, high = self._bounds
        return worth if low is None and high is None else worth.clamp(low, high)

    def _over_particles(self, total: Tensor) -> Tensor:
        if total.shape[0] == 1:
            return total[0]
        mean = total.mean(0)
        return mean - self.pessimism * total.std(0) if self.pessimism else mean


def rollout_reward(
    obs: Tensor, actions: Tensor, dynamics: Dynamics, value: PlanValue | None = None, *, gamma: float = 1.0
) -> Tensor:
    """What a sequence of actions [H, ...] returns from an observation [O] on, or sequences [E, H, ...] from several: a
    call of the design document. Actions are choices from 0, or numbers in [-1, 1] that fill the bounds."""
    single = obs.dim() == 1
    observations, sequences = (obs[None], actions[None]) if single else (obs, actions)
    total = ReturnScore(dynamics, gamma=gamma, value=value)(observations.float(), sequences.unsqueeze(1))[:, 0]
    return total[0] if single else total


def returns(cfg: ScorePartConfig, terms: Terms) -> ReturnScore:
    """The discounted rewards of a sequence, and the value of where it ends."""
    return ReturnScore(**terms._asdict())


def _value_bounds(reward_range: tuple[float, float] | None, gamma: float) -> tuple[float | None, float | None]:
    """What an unfinished episode can be worth: at least one more reward comes, at most endlessly many."""
    if reward_range is None:
        return None, None
    low, high = reward_range
    endless = None if gamma >= 1 else 1 / (1 - gamma)
    lowest = low if low > 0 else (None if endless is None else low * endless)
    highest = high if high < 0 else (0.0 if high == 0 else (None if endless is None else high * endless))
    return lowest, highest
