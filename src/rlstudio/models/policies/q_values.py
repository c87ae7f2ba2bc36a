"""Models that value the choices of a Discrete action space: q-value, and quantile-value, which tells how it spreads.

Either can be dueling (Wang et al. 2016, 1511.06581): one network for the state, one for the choices.
"""

from __future__ import annotations

from torch import Tensor, nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete, Spaces, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder, Observations, build_encoder
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.policies.masking import Masking


class QValue(nn.Module):
    """forward(observations) -> q [N, A], one value per choice; a forbidden choice has the lowest there is."""

    variant = "q-value"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng, dueling: bool = False) -> None:
        super().__init__()
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        self.q_net = _q_net(self.encoder.size, _choices(spaces), 1, network, rng.fork("q"), dueling)
        self._masking = Masking(spaces)

    def forward(self, observations: Observations) -> Tensor:
        return self._masking(self.q_net(self.encoder(observations)), observations)

    def values(self, observations: Observations) -> Tensor:
        """What each choice is worth [N, A]."""
        return self.forward(observations)


class QuantileValue(nn.Module):
    """forward(observations) -> quantiles [N, A, Q] of each choice's return, at the middles of Q equal shares."""

    variant = "quantile-value"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng, quantiles: int, dueling: bool = False) -> None:
        super().__init__()
        self.quantiles = quantiles
        self.choices = _choices(spaces)
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        self.q_net = _q_net(self.encoder.size, self.choices, quantiles, network, rng.fork("q"), dueling)
        self._masking = Masking(spaces)

    def forward(self, observations: Observations) -> Tensor:
        quantiles_NAQ = self.q_net(self.encoder(observations)).view(-1, self.choices, self.quantiles)
        return self._masking(quantiles_NAQ, observations)

    def values(self, observations: Observations) -> Tensor:
        """What each choice is worth on average [N, A]."""
        return self.forward(observations).mean(-1)


class Dueling(nn.Module):
    """features -> V + A - mean A [N, choices * K], flat, with K numbers per choice.

    V and A are networks of their own over the encoder's features. V is the same for all choices, and so is the mean:
    A alone ranks them.
    """

    def __init__(self, inputs: int, choices: int, per_choice: int, network: NetworkConfig, rng: Rng) -> None:
        super().__init__()
        self.per_choice = per_choice
        hidden, activation = network.hidden_sizes, network.activation
        self.value_net = MLP(inputs, hidden, per_choice, activation, rng.fork("value"), gain=None)
        self.advantage_net = MLP(inputs, hidden, choices * per_choice, activation, rng.fork("advantage"), gain=None)

    def forward(self, features: Tensor) -> Tensor:
        advantages_NAK = self.advantage_net(features).unflatten(1, (-1, self.per_choice))
        values_N1K = self.value_net(features).unsqueeze(1)
        return (values_N1K + advantages_NAK - advantages_NAK.mean(1, keepdim=True)).flatten(1)  # type: ignore[no-any-return]


def ranking_net(model: QValue | QuantileValue) -> MLP:
    """The network whose outputs rank the choices: acting needs no other."""
    return model.q_net.advantage_net if isinstance(model.q_net, Dueling) else model.q_net


def _choices(spaces: Spaces) -> int:
    if not isinstance(spaces.action, Discrete):
        raise Incompatible(f"a q-value Model needs Discrete actions; the env takes {describe(spaces.action)}")
    return spaces.action.n


def _q_net(
    inputs: int, choices: int, per_choice: int, network: NetworkConfig, rng: Rng, dueling: bool
) -> MLP | Dueling:
    if dueling:
        return Dueling(inputs, choices, per_choice, network, rng)
    return MLP(inputs, network.hidden_sizes, choices * per_choice, network.activation, rng, gain=None)
