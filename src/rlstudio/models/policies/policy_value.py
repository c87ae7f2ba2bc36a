"""Models with a policy: policy-only and policy-value. Pure functions of observations; none samples.

An MLP has separate networks for policy and value, a CNN shares its trunk. Rows may have any leading dimensions, [N] or
[T, B]. `reads` names the Batch columns a Model needs, so a loss calls `model(**batch.only(model.reads))` and never asks
what kind of Model it has. What others than learning ask of them is in `policy_model.py`.
"""

from __future__ import annotations

from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.model.layers import Observations
from rlstudio.core.model.policies import Policy
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import build_encoder
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.policies.head import PolicyHead
from rlstudio.models.policies.masking import Masking
from rlstudio.models.policies.policy_model import PolicyModel
from rlstudio.models.policies.state_dependent import StateDependentStd


class PolicyOnly(PolicyModel):
    """forward(observations) -> policy."""

    variant = "policy-only"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        self.spaces, self.network = spaces, network
        self.encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        exploration = StateDependentStd.of(network, spaces.action, learn_features=False)
        self.head = PolicyHead(spaces.action, network.log_std_init, exploration)
        sizes = (self.encoder.size, network.hidden_sizes, self.head.outputs)
        self.policy_net = MLP(*sizes, network.activation, rng.fork("policy"), gain=0.01)
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
