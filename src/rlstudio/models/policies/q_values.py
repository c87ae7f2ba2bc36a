"""Models that value the choices of a Discrete action space: q-value, and quantile-value, which tells how it spreads.

Either can be dueling (Wang et al. 2016, 1511.06581): one network for the state, one for the choices.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rlstudio.core.action_mask import FORBIDDEN
from rlstudio.core.contracts import State
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.layers import ActionRule, Carry, Layers, Observations
from rlstudio.core.model.policies import Categorical, PlanPolicy, PlanValue
from rlstudio.core.model.protocol import Weights
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete, Spaces, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import Encoder, build_encoder
from rlstudio.models.networks.layout import layers_of
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.plain import plain_network
from rlstudio.models.policies.masking import Masking
from rlstudio.models.spec import model_fields

PLAN_TEMPERATURE = 0.1
"""Temperature of the softmax that makes a policy of values for a plan, in units of the spread of a state's values."""


class _ChoiceValues(nn.Module):
    """What both have in common: an encoder, a network with `quantiles` numbers per choice, what others ask of them."""

    variant: str
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng, quantiles: int, dueling: bool) -> None:
        super().__init__()
        self.network = network
        self.quantiles = quantiles
        self.choices = _choices(spaces)
        self.encoder: Encoder = build_encoder(spaces.observation, network, rng.fork("encoder"))
        self.q_net = _q_net(self.encoder.size, self.choices, quantiles, network, rng.fork("q"), dueling)
        self._masking = Masking(spaces)

    def values(self, observations: Observations) -> Tensor:
        raise NotImplementedError  # abstract

    @property
    def ranking_net(self) -> MLP:
        """The network whose outputs rank the choices: acting needs no other."""
        return self.q_net.advantage_net if isinstance(self.q_net, Dueling) else self.q_net

    def spec(self) -> State:
        dueling = isinstance(self.q_net, Dueling)
        return model_fields(self.variant, self.network, quantiles=self.quantiles, dueling=dueling)

    def action_rule(self) -> ActionRule:
        return ActionRule("values", self.choices * self.quantiles, per_choice=self.quantiles)

    def carry_shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def layers(self) -> Layers | None:
        return layers_of(self.encoder, self.ranking_net)

    def outputs(self, observations: Observations, carry: Carry | None = None) -> tuple[Tensor, Carry]:
        return self.ranking_net(self.encoder(observations)), {}

    def plain(self) -> nn.Module:
        return plain_network(self.encoder, self.ranking_net)

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue:
        """The worth of the best choice."""
        return lambda observations: self._rows(observations).amax(-1)

    def policy_for_plan(self) -> PlanPolicy:
        """A softmax of the values, whose temperature means the same in every task."""

        def ranked(observations: Tensor) -> Categorical:
            values = self._rows(observations)
            best = values.amax(-1, keepdim=True)
            allowed = torch.where(values > FORBIDDEN / 2, values, best)  # a forbidden one says nothing of the spread
            spread = (best - allowed.amin(-1, keepdim=True)).clamp(min=1e-6)
            return Categorical((values - best) / (spread * PLAN_TEMPERATURE))

        return ranked

    def _rows(self, observations: Observations) -> Tensor:
        """What each choice is worth [..., A], for any leading dimensions; of the dicts of a game [N, A]."""
        if isinstance(observations, dict):
            return self.values(observations)
        values = self.values(observations.reshape(-1, observations.shape[-1]))
        return values.view(*observations.shape[:-1], -1)


class QValue(_ChoiceValues):
    """forward(observations) -> q [N, A], one value per choice; a forbidden choice has the lowest there is."""

    variant = "q-value"

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng, dueling: bool = False) -> None:
        super().__init__(spaces, network, rng, 1, dueling)

    def forward(self, observations: Observations) -> Tensor:
        return self._masking(self.q_net(self.encoder(observations)), observations)

    def values(self, observations: Observations) -> Tensor:
        """What each choice is worth [N, A]."""
        return self.forward(observations)


class QuantileValue(_ChoiceValues):
    """forward(observations) -> quantiles [N, A, Q] of each choice's return, at the middles of Q equal shares."""

    variant = "quantile-value"

    def __init__(
        self, spaces: Spaces, network: NetworkConfig, rng: Rng, quantiles: int = 1, dueling: bool = False
    ) -> None:
        super().__init__(spaces, network, rng, quantiles, dueling)

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
