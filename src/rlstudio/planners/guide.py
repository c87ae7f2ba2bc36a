"""Guide: a policy that proposes sequences of its own, by acting in the model (TD-MPC2: Hansen et al. 2024, 2310.16828).

The first sequence is the policy at its most likely, the others are samples of it. Dims as in `score`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.core.contracts import Score
from rlstudio.core.model.policies import Categorical, PlanPolicy, Policy
from rlstudio.models.policies.distributions import mode, sample


class Guide:
    def __init__(self, policy: PlanPolicy, count: int, horizon: int) -> None:
        """`count`: sequences that it proposes for each plan."""
        self.policy, self.count, self.horizon = policy, count, horizon

    def __call__(self, observations: Tensor, score: Score, noise: Tensor) -> Tensor:
        """Sequences [E, count, H, ...] from noise [E, count, H, ...] as the proposal beside it has it: normal for
        numbers, uniform for choices. Of an uncertain model the policy sees the first particle."""
        states = score.dynamics.start(observations, self.count)
        chosen = []
        for step in range(self.horizon):
            policy = self.policy(score.dynamics.observe(states)[0])
            actions = torch.cat((mode(policy)[:, :1], _drawn(policy, noise[:, :, step])[:, 1:]), 1)
            if actions.is_floating_point():
                actions = actions.nan_to_num(0.0).clamp(-1.0, 1.0)  # a model that went astray shows no numbers
            chosen.append(actions)
            states = score.dynamics.step(states, actions).states
        return torch.stack(chosen, 2)


def _drawn(policy: Policy, noise: Tensor) -> Tensor:
    if isinstance(policy, Categorical):
        edges = policy.logits.softmax(-1).cumsum(-1)[..., :-1]
        return (noise[..., :1] >= edges).sum(-1)
    return sample(policy, noise)
