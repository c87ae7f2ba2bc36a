"""Relu values: a Model of your own in one file, of torch alone and of no class of RLStudio's.

q(s, .) = B relu(A (s - 0.5) + a) + b          `width` units; a plan takes max_a q(s, a) for what is still to come
"""

import torch
from torch import nn
from torch.nn.utils import skip_init

from rlstudio.core.action_mask import features
from rlstudio.core.model.layers import ActionRule, Layers, Linear, Moments
from rlstudio.core.model.policies import Categorical
from rlstudio.core.spaces import Dict
from rlstudio.models.plain import plain_layers
from rlstudio.models.policies.masking import Masking


class ReluValues(nn.Module):
    variant = "relu-values"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces, network, rng, width=4):
        super().__init__()
        self.network, self.width, self.entry = network, width, None
        numbers, self.masked = features(spaces.observation), Masking(spaces)
        if isinstance(numbers, Dict):  # numbers beside an action mask
            ((self.entry, numbers),) = numbers.items()
        self.first = skip_init(nn.Linear, numbers.size, width)  # nn.Linear alone would draw from torch's generator
        self.second = skip_init(nn.Linear, width, spaces.action.n)
        self.register_buffer("middle", torch.full((numbers.size,), 0.5))
        generator = rng.generator()
        for parameter in self.parameters():  # from the run's own randomness
            parameter.data.copy_(torch.from_numpy(generator.standard_normal(parameter.shape)))

    # What its loss learns from; a forbidden choice has the lowest value there is.
    def forward(self, observations):
        return self.masked(self.outputs(observations)[0], observations)

    # How it is built again: checkpoints and bundles hold this. `settings` are arguments of the class.
    def spec(self):
        network = self.network.model_dump(mode="json")
        return {"variant": self.variant, "network": network, "settings": {"width": self.width}}

    # Who acts with it: one number for each choice, and the agent takes the highest.
    def action_rule(self):
        return ActionRule("values", self.second.out_features)

    def carry_shapes(self):
        return {}

    # The network layer by layer, for acting in NumPy; None where it is more than layers.
    def layers(self):
        linears = tuple(Linear(layer.weight, layer.bias) for layer in (self.first, self.second))
        moments = Moments(self.middle, torch.ones_like(self.middle), 5.0)
        return Layers(self.first.in_features, linears, "relu", self.entry, moments)

    # And for acting in torch, on any device.
    def outputs(self, observations, carry=None):
        numbers = observations if self.entry is None else observations[self.entry]
        return self.second(torch.relu(self.first((numbers - self.middle).clamp(-5.0, 5.0)))), {}

    # What is exported.
    def plain(self):
        return plain_layers(self.layers())

    # What a planner uses: what is still to come, and what it would do.
    def value_for_plan(self, learned):
        return lambda observations: self(observations).amax(-1)

    def policy_for_plan(self):
        return lambda observations: Categorical(self(observations))
