"""State-dependent exploration: noise as a function of the state.  Raffin et al. 2020, arXiv:2005.05719.

    noise(s) = h(s) W        W_ij ~ N(0, sigma_ij^2), drawn anew every `exploration_hold` steps
    so that, over all W,     noise(s)_j ~ N(0, sum_i h_i(s)^2 sigma_ij^2)

h is the last hidden layer of the policy network. The same state gets the same noise until W changes: smooth on a
motor, and far-reaching where noise of single steps cancels out. Learning sees the Gaussian of the second line.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.model.layers import Observations, StateNoise
from rlstudio.core.spaces import Box, Space, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder
from rlstudio.models.networks.mlp import MLP

SMALLEST_VARIANCE = 1e-6
"""Added, so that a state whose hidden layer is silent still has a density."""


class StateDependentStd(nn.Module):
    """forward(hidden [..., H]) -> log standard deviations [..., D], of the learned sigma [H, D].

    Without `learn_features` the hidden layer is learned for the mean alone.
    """

    def __init__(self, hidden: int, size: int, log_std_init: float, hold: int, learn_features: bool) -> None:
        super().__init__()
        self.log_std = nn.Parameter(torch.full((hidden, size), log_std_init))
        self.hold = hold
        self.learn_features = learn_features

    @classmethod
    def of(cls, network: NetworkConfig, actions: Space, learn_features: bool) -> Self | None:
        """What the network section asks for: None where noise is independent from step to step."""
        if network.exploration == "independent":
            return None
        if not isinstance(actions, Box):
            raise Incompatible(
                f"policy.network.exploration: state_dependent needs Box actions, not {describe(actions)};"
                " set it to independent"
            )
        if not network.hidden_sizes:
            raise Incompatible("policy.network.exploration: state_dependent needs a hidden layer in hidden_sizes")
        hold = network.exploration_hold
        return cls(network.hidden_sizes[-1], actions.size, network.log_std_init, hold, learn_features)

    def described(self, net: MLP, encoder: Encoder) -> StateNoise:
        """What an agent needs to act by it, on top of the means of `net`."""

        def with_hidden(observations: Observations) -> tuple[Tensor, Tensor]:
            hidden = net.hidden(encoder(observations))
            return net.output(hidden), hidden

        return StateNoise(self.log_std, self.hold, with_hidden)

    def forward(self, hidden: Tensor) -> Tensor:
        if not self.learn_features:
            hidden = hidden.detach()
        return 0.5 * torch.log(hidden.square() @ (2.0 * self.log_std).exp() + SMALLEST_VARIANCE)
