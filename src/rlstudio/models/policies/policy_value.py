"""Models with a policy: policy-only and policy-value. Pure functions of observations; none samples.

An MLP has separate networks for policy and value, a CNN shares its trunk. Rows may have any leading dimensions, [N] or
[T, B]. `reads` names the Batch columns a Model needs, so a loss calls `model(**batch.only(model.reads))` and never asks
what kind of Model it has. From `spec` on it is what others ask of a Model, by the contract in `core/contracts`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.layers import ActionRule, Carry, Layers, Observations
from rlstudio.core.model.policies import Categorical, Gaussian, MultiCategorical, PlanPolicy, PlanValue, Policy
from rlstudio.core.model.protocol import Weights
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, MultiDiscrete, Space, Spaces, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder, build_encoder
from rlstudio.models.networks.layout import layers_of
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.plain import plain_network
from rlstudio.models.policies.bounds import Bounds
from rlstudio.models.policies.masking import Masking
from rlstudio.models.policies.state_dependent import StateDependentStd
from rlstudio.models.spec import model_fields


class PolicyHead(nn.Module):
    """Turns the output of a policy network into a policy over the action space.

    With state-dependent `exploration` it also takes what the last hidden layer of that network gave.
    """

    def __init__(self, space: Space, log_std_init: float, exploration: StateDependentStd | None = None) -> None:
        super().__init__()
        match space:
            case Discrete():
                self.outputs = space.n
            case MultiDiscrete():
                self.outputs = sum(space.nvec)
            case Box() if len(space.shape) == 1:
                self.outputs = space.size
                if exploration is None:
                    self.log_std = nn.Parameter(torch.full((1, space.size), log_std_init))
            case _:
                raise Incompatible(
                    f"no policy head for actions {describe(space)}; flatten them to Box, Discrete or MultiDiscrete"
                )
        self.space = space
        self.exploration = exploration

    def forward(self, outputs: Tensor, hidden: Tensor | None = None) -> Policy:
        match self.space:
            case Discrete():
                return Categorical(outputs)
            case MultiDiscrete():
                return MultiCategorical(outputs, self.space.nvec)
        return Gaussian(outputs, self.log_std if self.exploration is None else self.exploration(hidden))

    def action_rule(self, net: MLP, encoder: Encoder) -> ActionRule:
        """How outputs of `net` over features of `encoder` become actions."""
        if self.exploration is not None:
            return ActionRule("policy", self.outputs, state_noise=self.exploration.described(net, encoder))
        return ActionRule("policy", self.outputs, getattr(self, "log_std", None))


class PolicyOnly(nn.Module):
    """forward(observations) -> policy."""

    variant = "policy-only"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        self.spaces, self.network = spaces, network
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        exploration = StateDependentStd.of(network, spaces.action, learn_features=False)
        self.head = PolicyHead(spaces.action, network.log_std_init, exploration)
        hidden = network.hidden_sizes
        self.policy_net = MLP(
            self.encoder.size, hidden, self.head.outputs, network.activation, rng.fork("policy"), 0.01
        )
        self._masking = Masking(spaces)

    def forward(self, observations: Observations) -> Policy:
        return self.policy(observations)

    def policy(self, observations: Observations) -> Policy:
        return self._policy(self.encoder(observations), observations)

    def _policy(self, features: Tensor, observations: Observations) -> Policy:
        if self.head.exploration is not None:
            hidden = self.policy_net.hidden(features)
            return self.head(self.policy_net.output(hidden), hidden)  # type: ignore[no-any-return]
        return self.head(self._masking(self.policy_net(features), observations))  # type: ignore[no-any-return]

    def spec(self) -> State:
        return model_fields(self.variant, self.network)

    def action_rule(self) -> ActionRule:
        return self.head.action_rule(self.policy_net, self.encoder)

    def carry_shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def layers(self) -> Layers | None:
        return layers_of(self.encoder, self.policy_net)

    def outputs(self, observations: Observations, carry: Carry | None = None) -> tuple[Tensor, Carry]:
        return self.policy_net(self.encoder(observations)), {}

    def plain(self) -> nn.Module:
        return plain_network(self.encoder, self.policy_net)

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue | None:
        return None

    def policy_for_plan(self) -> PlanPolicy:
        return in_plan_units(self.policy, self.spaces.action)


class PolicyValue(PolicyOnly):
    """forward(observations) -> (policy, values)."""

    variant = "policy-value"

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__(spaces, network, rng)
        sizes = (self.encoder.size, network.hidden_sizes, 1)
        self.value_net = MLP(*sizes, network.activation, rng.fork("value"), gain=1.0)

    def forward(self, observations: Observations) -> tuple[Policy, Tensor]:  # type: ignore[override]
        features = self.encoder(observations)
        return self._policy(features, observations), self.value_net(features).squeeze(-1)

    def value(self, observations: Observations) -> Tensor:
        """Values only."""
        return self.value_net(self.encoder(observations)).squeeze(-1)  # type: ignore[no-any-return]

    def successor_values(self, rollout: Batch) -> Tensor:
        """V(next_observations), [T, B]: at the true successor of each row."""
        return self.value(rollout.next_observations)

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue:
        return self.value


def in_plan_units(policy: PlanPolicy, actions: Space) -> PlanPolicy:
    """A policy over the environment's action range, rescaled to the [-1, 1] of a plan; one over choices as it is."""
    if not isinstance(actions, Box):
        return policy
    bounds = Bounds(actions)

    def rescaled(observations: Tensor) -> Policy:
        gaussian = policy(observations)
        assert isinstance(gaussian, Gaussian)
        return Gaussian(bounds.unit(gaussian.mean), gaussian.log_std - bounds.scale.log())

    return rescaled
