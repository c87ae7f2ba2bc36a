"""Policies that stay inside the bounds of their actions, through a tanh: squashed-policy and deterministic-policy."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi, sqrt

import torch
from numpy.polynomial.hermite_e import hermegauss
from torch import Tensor, nn

from rlstudio.core.contracts import State
from rlstudio.core.model.layers import ActionRule, Carry, Layers, Observations
from rlstudio.core.model.policies import Gaussian, PlanPolicy, PlanValue, SquashedGaussian
from rlstudio.core.model.protocol import Weights
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder, build_encoder
from rlstudio.models.networks.layout import layers_of
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.plain import plain_network
from rlstudio.models.policies.action_values import TwinQ, critic_of
from rlstudio.models.policies.bounds import Bounds
from rlstudio.models.policies.distributions import sample_with_log_prob
from rlstudio.models.policies.state_dependent import StateDependentStd
from rlstudio.models.spec import model_fields

LOG_STD_RANGE = (-20.0, 2.0)
"""Where log standard deviations are held: beyond it, densities of float32 numbers mean nothing."""

QUADRATURE = tuple((float(x), float(w / sqrt(2.0 * pi))) for x, w in zip(*hermegauss(5), strict=True))
"""Points, in standard deviations from the mean, and weights that stand for a normal number (Gauss-Hermite). All numbers
of an action take the same point: for log pi, a sum over them, that loses nothing (within 0.006 for each at a standard
deviation of 1); of Q it sees the diagonal."""


class _Bounded(nn.Module):
    """What both have in common: encoder, policy network, bounds, and what others ask of them."""

    variant: str
    reads: tuple[str, ...] = ("observations",)
    encoder: Encoder
    policy_net: MLP

    def __init__(self, spaces: Spaces, network: NetworkConfig) -> None:
        super().__init__()
        self.spaces, self.network = spaces, network
        self.bounds = Bounds(spaces.action)

    def spec(self) -> State:
        return model_fields(self.variant, self.network)

    def carry_shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def layers(self) -> Layers | None:
        return layers_of(self.encoder, self.policy_net)

    def outputs(self, observations: Observations, carry: Carry | None = None) -> tuple[Tensor, Carry]:
        return self.policy_net(self.encoder(observations)), {}

    def plain(self) -> nn.Module:
        return plain_network(self.encoder, self.policy_net)

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue | None:
        """By the values that the policy was learned with, which a checkpoint holds and a bundle does not."""
        q = critic_of(self.spaces, self.network, learned)
        if q is None:
            return None

        def value(observations: Tensor) -> Tensor:
            rows = observations.reshape(-1, observations.shape[-1])
            return self._value(q, rows).view(observations.shape[:-1])

        return value

    def _value(self, q: TwinQ, observations: Tensor) -> Tensor:
        raise NotImplementedError  # abstract


class SquashedPolicy(_Bounded):
    """forward(observations) -> SquashedGaussian, with a standard deviation by the state.

    The network gives the mean and the log standard deviation; with `exploration: state_dependent` the latter comes from
    its last hidden layer (see `StateDependentStd`). `log_temperature` is the weight of the policy's entropy against
    the reward, as a logarithm; it lies with the weights so that what learns the one learns the other.
    """

    variant = "squashed-policy"

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__(spaces, network)
        self.encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
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

    def action_rule(self) -> ActionRule:
        if self.exploration is None:
            return ActionRule("bounded", 2 * self.bounds.size)
        noise = self.exploration.described(self.policy_net, self.encoder)
        return ActionRule("bounded", self.bounds.size, state_noise=noise)

    def policy_for_plan(self) -> PlanPolicy:
        def unscaled(observations: Tensor) -> SquashedGaussian:
            policy = self.forward(observations)
            return policy._replace(scale=torch.ones_like(policy.scale), shift=torch.zeros_like(policy.shift))

        return unscaled

    def _value(self, q: TwinQ, observations: Tensor) -> Tensor:
        """The soft value E[min Q(s, a) - temperature log pi(a|s)], a ~ pi(.|s), by `QUADRATURE` instead of chance."""
        policy = self.forward(observations)
        temperature = self.log_temperature.exp()
        value = torch.zeros_like(policy.mean[:, 0])
        for point, weight in QUADRATURE:
            actions, log_probs = sample_with_log_prob(policy, torch.full_like(policy.mean, point))
            value = value + weight * (q(observations, actions).amin(0) - temperature * log_probs)
        return value


class DeterministicPolicy(_Bounded):
    """forward(observations) -> actions [N, D]."""

    variant = "deterministic-policy"

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__(spaces, network)
        self.encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        sizes = (self.encoder.size, network.hidden_sizes, self.bounds.size)
        self.policy_net = MLP(*sizes, network.activation, rng.fork("policy"), gain=None)

    def forward(self, observations: Observations) -> Tensor:
        return self.bounds.actions(torch.tanh(self.policy_net(self.encoder(observations))))

    def action_rule(self) -> ActionRule:
        return ActionRule("bounded", self.bounds.size, samples=False)

    def policy_for_plan(self) -> PlanPolicy:
        def certain(observations: Tensor) -> Gaussian:
            actions = self.bounds.unit(self.forward(observations))
            return Gaussian(actions, torch.full_like(actions, -torch.inf))

        return certain

    def _value(self, q: TwinQ, observations: Tensor) -> Tensor:
        """Q_1(s, mu(s)), which the policy was learned to raise."""
        values: Tensor = q(observations, self.forward(observations))[0]
        return values
