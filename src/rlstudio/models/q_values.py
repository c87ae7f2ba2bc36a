"""Models that value the choices of a Discrete action space: q-value."""

from __future__ import annotations

from torch import Tensor, nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete, Spaces, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.encoder import Encoder, Observations, build_encoder
from rlstudio.models.mlp import MLP


class QValue(nn.Module):
    """forward(observations) -> q [N, A], one value per choice."""

    variant = "q-value"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        if not isinstance(spaces.action, Discrete):
            raise Incompatible(f"a q-value Model needs Discrete actions; the env takes {describe(spaces.action)}")
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        self.q_net = MLP(
            self.encoder.size, network.hidden_sizes, spaces.action.n, network.activation, rng.fork("q"), gain=None
        )

    def forward(self, observations: Observations) -> Tensor:
        return self.q_net(self.encoder(observations))  # type: ignore[no-any-return]
