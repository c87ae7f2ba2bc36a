"""Recurrent policy-value Model: policy and value by what was seen since the episode began.

Two leading dimensions [L, b] are sequences: the memory is unrolled from the carry of the first row, starts afresh where
`resets` says so, and gradients flow back through time. One [N] are single steps, each from the carry stored with its
row: all at once, without an unroll. Right after collecting, with the weights that acted, both give the same numbers.
"""

from __future__ import annotations

from torch import Tensor, nn

from rlstudio.core.batch import Batch
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder, Observations, build_encoder
from rlstudio.models.networks.memory import MEMORIES, Carry
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.policies.distributions import Policy
from rlstudio.models.policies.masking import Masking
from rlstudio.models.policies.policy_value import PolicyHead


class RecurrentPolicyValue(nn.Module):
    """forward(observations, carry, resets) -> (policy, values).

    Policy and value have memories of their own, side by side: the errors of values are so much larger that in a shared
    one little would be left for the policy.
    """

    variant = "recurrent-policy-value"
    reads: tuple[str, ...] = ("observations", "carry", "resets")

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
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

    def act(self, observations: Observations, carry: Carry) -> tuple[Tensor, Carry]:
        """Outputs of the policy network for rows [N], before any mask, and the carry after them."""
        remembered, after = self.advance(observations, carry)
        return self.policy_net(remembered[:, 0]), after

    def successor_values(self, rollout: Batch) -> Tensor:
        """V(next_observations | carry after the row), [T, B], of a rollout fresh from the collector."""
        flat = rollout.flatten()
        _, after = self.advance(flat.observations, flat.carry)
        remembered, _ = self.advance(flat.next_observations, after)
        return self._value(remembered).view(rollout.shape)

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
