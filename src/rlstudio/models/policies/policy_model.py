"""What others ask of a Model with a policy, by the contract of Models in `core/contracts`: agents how to act by it,
checkpoints what it is, export its layers, planners its policy and its value. Learning asks for none of this."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from rlstudio.core.contracts import State
from rlstudio.core.model.layers import ActionRule, Carry, Layers, Observations
from rlstudio.core.model.policies import Gaussian, PlanPolicy, PlanValue, Policy
from rlstudio.core.model.protocol import Weights
from rlstudio.core.spaces import Box, Space, Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder
from rlstudio.models.networks.layout import layers_of
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.plain import plain_network
from rlstudio.models.policies.bounds import Bounds
from rlstudio.models.policies.head import PolicyHead
from rlstudio.models.spec import model_fields


class PolicyModel(nn.Module):
    """An encoder, a policy network over its features and a head. A Model with memory answers some of this anew."""

    variant: str
    spaces: Spaces
    network: NetworkConfig
    encoder: Encoder
    policy_net: MLP
    head: PolicyHead

    def policy(self, observations: Observations) -> Policy:
        raise NotImplementedError  # abstract

    def spec(self) -> State:
        return model_fields(self.variant, self.network)

    def action_rule(self) -> ActionRule:
        head = self.head
        if head.exploration is not None:
            noise = head.exploration.described(self.policy_net, self.encoder)
            return ActionRule("policy", head.outputs, state_noise=noise)
        return ActionRule("policy", head.outputs, getattr(head, "log_std", None))

    def carry_shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def layers(self) -> Layers | None:
        return layers_of(self.encoder, self.policy_net)

    def outputs(self, observations: Observations, carry: Carry | None = None) -> tuple[Tensor, Carry]:
        return self.policy_net(self.encoder(observations)), {}

    def plain(self) -> nn.Module:
        return plain_network(self.encoder, self.policy_net)

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue | None:
        """Its own, where it has one."""
        value: PlanValue | None = getattr(self, "value", None)
        return value

    def policy_for_plan(self) -> PlanPolicy:
        return in_plan_units(self.policy, self.spaces.action)


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
