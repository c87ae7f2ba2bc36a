"""Recurrent policy-value Model: policy and value by what was seen since the episode began.

Two leading dimensions [L, b] are sequences: the memory is unrolled from the carry of the first row, starts afresh where
`resets` says so, and gradients flow back through time. One [N] are single steps, each from the carry stored with its
row: all at once, without an unroll. Right after collecting, with the weights that acted, both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from rlstudio.core.batch import Batch
from rlstudio.core.model.layers import Carry, Layers, Observations
from rlstudio.core.model.policies import PlanPolicy, PlanValue, Policy
from rlstudio.core.model.protocol import Weights
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import build_encoder
from rlstudio.models.networks.layout import layers_of
from rlstudio.models.networks.memory import MEMORIES
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.plain import plain_network
from rlstudio.models.policies.head import PolicyHead
from rlstudio.models.policies.masking import Masking
from rlstudio.models.policies.policy_model import PolicyModel, in_plan_units


class RecurrentPolicyValue(PolicyModel):
    """forward(observations, carry, resets) -> (policy, values).

    Policy and value have memories of their own, side by side: the errors of values are so much larger that in a shared
    one little would be left for the policy.
    """

    variant = "recurrent-policy-value"
    reads: tuple[str, ...] = ("observations", "carry", "resets")

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        self.spaces, self.network = spaces, network
        self.encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        self.memory = MEMORIES[network.memory](self.encoder.size, network.memory_size, 2, rng.fork("memory"))
        self.head = PolicyHead(spaces.action, network.log_std_init)
        sizes = network.memory_size, network.hidden_sizes
        self.policy_net = MLP(*sizes, self.head.outputs, network.activation, rng.fork("policy"), 0.01)
        self.value_net = MLP(*sizes, 1, network.activation, rng.fork("value"), gain=1.0)
        self._masking = Masking(spaces)

    def forward(self, observations: Observations, carry: Carry, resets: Tensor) -> tuple[Policy, Tensor]:
        remembered = self._remember(observations, carry, resets)
        outputs = self._masking(self.policy_net(remembered[..., 0, :]), observations)
        return self.head(outputs), self._value(remembered)

    def value(self, observations: Observations, carry: Carry, resets: Tensor) -> Tensor:
        """Values only."""
        return self._value(self._remember(observations, carry, resets))

    def advance(self, observations: Observations, carry: Carry) -> tuple[Tensor, Carry]:
        """One step of rows [N] from their carry: what is remembered [N, 2, H], and the carry after it."""
        remembered, after = self.memory(self.encoder(observations).unsqueeze(0), carry, _no_resets(carry))
        return remembered[0], after

    def successor_values(self, rollout: Batch) -> Tensor:
        """V(next_observations | carry after the row), [T, B], of a rollout fresh from the collector."""
        flat = rollout.flatten()
        _, after = self.advance(flat.observations, flat.carry)
        remembered, _ = self.advance(flat.next_observations, after)
        return self._value(remembered).view(rollout.shape)

    def carry_shapes(self) -> dict[str, tuple[int, ...]]:
        return {part: (self.memory.count, self.memory.size) for part in self.memory.parts}

    def layers(self) -> Layers | None:
        return layers_of(self.encoder, self.policy_net, self.memory)

    def outputs(self, observations: Observations, carry: Carry | None = None) -> tuple[Tensor, Carry]:
        if carry is None:
            rows = next(iter(observations.values())) if isinstance(observations, dict) else observations
            carry = self.memory.empty(len(rows))
        remembered, after = self.advance(observations, carry)
        return self.policy_net(remembered[:, 0]), after

    def plain(self) -> nn.Module:
        return plain_network(self.encoder, self.policy_net, self.memory)

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue:
        """That of an episode which begins with the observation: a plan has no memory of its own."""
        return lambda observations: self._value(self._at_first(observations))

    def policy_for_plan(self) -> PlanPolicy:
        """That of an episode which begins with the observation."""
        return in_plan_units(self._first_policy, self.spaces.action)

    def _first_policy(self, observations: Tensor) -> Policy:
        outputs = self._masking(self.policy_net(self._at_first(observations)[..., 0, :]), observations)
        return self.head(outputs)  # type: ignore[no-any-return]

    def _at_first(self, observations: Tensor) -> Tensor:
        """What is remembered [..., 2, H] after the first observation [..., O] of an episode."""
        rows = observations.reshape(-1, observations.shape[-1])
        remembered, _ = self.advance(rows, self.memory.empty(len(rows)))
        return remembered.view(*observations.shape[:-1], *remembered.shape[1:])

    def _remember(self, observations: Observations, carry: Carry, resets: Tensor) -> Tensor:
        if resets.dim() == 1:
            return self.advance(observations, carry)[0]
        first = {part: rows[0] for part, rows in carry.items()}
        return self.memory(self.encoder(observations), first, resets)[0]  # type: ignore[no-any-return]

    def _value(self, remembered: Tensor) -> Tensor:
        return self.value_net(remembered[..., 1, :]).squeeze(-1)  # type: ignore[no-any-return]


def _no_resets(carry: Carry) -> Tensor:
    """Stored rows are fresh already where an episode starts."""
    rows = next(iter(carry.values()))
    return rows.new_zeros(1, len(rows), dtype=bool)  # type: ignore[call-overload, no-any-return]
