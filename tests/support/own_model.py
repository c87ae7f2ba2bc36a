"""A Model as another package would write it: one file, torch alone, no class of RLStudio's.

q(s, .) = B relu(A (s - 0.5)) + c          `width` units; it plans with max_a q(s, a)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlstudio.core.model import Categorical, Decision, Layers, Linear, Moments, PlanPolicy, PlanValue
from rlstudio.models.plain import plain_layers


class AcmeValues(nn.Module):
    variant = "acme-values"
    reads = ("observations",)

    def __init__(self, spaces: Any, network: Any, rng: Any, width: int = 4) -> None:
        super().__init__()
        self.network, self.width = network, width
        self.first = nn.Linear(spaces.observation.size, width)
        self.second = nn.Linear(width, spaces.action.n)
        self.register_buffer("middle", torch.full((spaces.observation.size,), 0.5))
        generator = torch.Generator().manual_seed(int(rng.generator().integers(2**31)))
        for parameter in self.parameters():
            parameter.data.normal_(generator=generator)

    middle: Tensor

    def forward(self, observations: Tensor) -> Tensor:
        return self.second(torch.relu(self.first((observations - self.middle).clamp(-5.0, 5.0))))

    def spec(self) -> dict[str, Any]:
        network = self.network.model_dump(mode="json")
        return {"variant": self.variant, "network": network, "settings": {"width": self.width}}

    def decision(self) -> Decision:
        return Decision("values", self.second.out_features)

    def carry_shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def layers(self) -> Layers:
        linears = tuple(Linear(layer.weight, layer.bias) for layer in (self.first, self.second))
        moments = Moments(self.middle, torch.ones_like(self.middle), 5.0)
        return Layers(self.first.in_features, linears, "relu", moments=moments)

    def outputs(self, observations: Any, carry: Any = None) -> tuple[Tensor, dict[str, Tensor]]:
        return self.forward(observations), {}

    def plain(self) -> nn.Module:
        return plain_layers(self.layers())

    def value_for_plan(self, learned: Mapping[str, Any]) -> PlanValue:
        return lambda observations: self.forward(observations).amax(-1)

    def policy_for_plan(self) -> PlanPolicy:
        return lambda observations: Categorical(self.forward(observations))
