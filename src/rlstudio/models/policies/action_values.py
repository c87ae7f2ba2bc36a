"""Models that value continuous actions: twin-q, two networks as one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.model.layers import Observations
from rlstudio.core.model.protocol import Weights
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder, build_encoder
from rlstudio.models.networks.ensemble import EnsembleMLP
from rlstudio.models.policies.bounds import Bounds
from rlstudio.models.weights import load_weights

CRITIC = "q"
"""Its name in `stateful()` beside the policy that it values: under it a checkpoint has its weights."""


class TwinQ(nn.Module):
    """forward(observations, actions) -> q [2, N].

    The two networks share an encoder, which has weights only for images. `lowest` and `first` are for learning a
    policy: their gradients reach the actions and nothing else.
    """

    variant = "twin-q"
    reads: tuple[str, ...] = ("observations", "actions")

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        self.bounds = Bounds(spaces.action)
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        inputs = self.encoder.size + self.bounds.size
        self.q_nets = EnsembleMLP(2, inputs, network.hidden_sizes, 1, network.activation, rng.fork("q"))

    def forward(self, observations: Observations, actions: Tensor) -> Tensor:
        return self.q_nets(self._joined(self.encoder(observations), actions)).squeeze(-1)  # type: ignore[no-any-return]

    def lowest(self, observations: Observations, actions: Tensor) -> Tensor:
        """The lower of the two values, [N]."""
        return self.q_nets.lowest(self._joined(self._features(observations), actions))

    def first(self, observations: Observations, actions: Tensor) -> Tensor:
        """The value of the first network, [N]."""
        return self.q_nets.first(self._joined(self._features(observations), actions)).squeeze(-1)

    @torch.no_grad()
    def _features(self, observations: Observations) -> Tensor:
        return self.encoder(observations)  # type: ignore[no-any-return]

    def _joined(self, features: Tensor, actions: Tensor) -> Tensor:
        return torch.cat((features, self.bounds.unit(actions)), -1)


def critic_of(spaces: Spaces, network: NetworkConfig, learned: Mapping[str, Weights]) -> TwinQ | None:
    """The values beside a policy, from the weights of its run; None where only the policy is left."""
    if CRITIC not in learned:
        return None
    q = TwinQ(spaces, network, Rng(0)).requires_grad_(False)
    try:
        load_weights(q, learned[CRITIC])
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise Incompatible(
            f"planner value own: what the run stored as {CRITIC} is not a {q.variant} Model: {reason};"
            " use planner.value=none"
        ) from error
    return q
