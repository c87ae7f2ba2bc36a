"""Policies that stay inside the bounds of their actions, through a tanh: squashed-policy and deterministic-policy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder, Observations, build_encoder
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.policies.bounds import Bounds
from rlstudio.models.policies.distributions import SquashedGaussian
from rlstudio.models.policies.state_dependent import StateDependentStd

LOG_STD_RANGE = (-20.0, 2.0)
"""Where log standard deviations are held: beyond it, densities of float32 numbers mean nothing."""


class SquashedPolicy(nn.Module):
    """forward(observations) -> SquashedGaussian, with a standard deviation by the state.

    The network gives the mean and the log standard deviation; with `exploration: state_dependent` the latter comes from
    its last hidden layer (see `StateDependentStd`). `log_temperature` is the weight of the policy's entropy against
    the reward, as a logarithm; it lies with the weights so that what learns the one learns the other.
    """

    variant = "squashed-policy"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        self.bounds = Bounds(spaces.action)
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        size, hidden = self.bounds.size, network.hidden_sizes
        self.exploration = StateDependentStd.of(network, spaces.action, learn_features=True)
        outputs = 2 * size if self.exploration is None else size
        self.policy_net = MLP(self.encoder.size, hidden, outputs, network.activation, rng.fork("policy"), gain=None)
        if self.exploration is None:
            with torch.no_grad():
                self.policy_net.layers[-1].bias[size:] += network.log_std_init  # type: ignore[index, operator]
        self.log_temperature = nn.Parameter(torch.zeros(()))

    def forward(self, observations: Observations) -> SquashedGaussian:
        features = self.encoder(observations)
        if self.exploration is None:
            mean, log_std = self.policy_net(features).chunk(2, -1)
        else:
            hidden = self.policy_net.hidden(features)
            mean, log_std = self.policy_net.output(hidden), self.exploration(hidden)
        return SquashedGaussian(mean, log_std.clamp(*LOG_STD_RANGE), self.bounds.scale, self.bounds.shift)


class DeterministicPolicy(nn.Module):
    """forward(observations) -> actions [N, D]."""

    variant = "deterministic-policy"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        self.bounds = Bounds(spaces.action)
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        sizes = (self.encoder.size, network.hidden_sizes, self.bounds.size)
        self.policy_net = MLP(*sizes, network.activation, rng.fork("policy"), gain=None)

    def forward(self, observations: Observations) -> Tensor:
        return self.bounds.actions(torch.tanh(self.policy_net(self.encoder(observations))))
