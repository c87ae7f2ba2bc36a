"""What is exported: an agent as one module of plain operations, from observations to the environment's own actions.

    forward(*inputs) -> (actions, outputs, *carry)

Inputs are the observations (one tensor, or one for each entry of a dict, `action_mask` included) and what the agent
remembers; `outputs` is what decided: logits, values or means, after the mask. The network comes from the Model in its
plain form, mask and actions are those of the spaces. That this acts as the agent does is checked at each export.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstudio.agents.agent import Agent
from rlstudio.core.action_mask import ACTION_MASK, FORBIDDEN, ActionMask
from rlstudio.core.contracts import Model
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Discrete, MultiDiscrete, Space
from rlstudio.delivery.ports import Port, action_port, carry_ports, observation_ports, output_port


class Deployed(nn.Module):
    """The greedy agent. Dims: N rows."""

    rows: int | None = None  # any number of them

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        model: object = getattr(agent, "model", None)
        if not isinstance(model, Model):
            raise Incompatible(
                f"a {type(agent).__name__} cannot be exported: what it acts by has no plain form (see Model in"
                " core/contracts)"
            )
        spaces, rule = agent.spaces, model.action_rule()
        self.network = model.plain()
        self.per_choice = rule.per_choice
        self.mask = ActionMask.of(spaces)
        self.decide = _decision(spaces.action, squashes=rule.kind == "bounded")
        self.observations, self.carry = observation_ports(spaces.observation), carry_ports(model.carry_shapes())
        self.results = (action_port(spaces.action), output_port(spaces.action))
        self.eval()
        self.requires_grad_(False)

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (*self.observations, *self.carry)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (*self.results, *(port.after for port in self.carry))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        entries = {port.part: rows for port, rows in zip(self.observations, inputs, strict=False)}
        held = inputs[len(self.observations) :]
        outputs, after = self.network(entries, {port.part: rows for port, rows in zip(self.carry, held, strict=True)})
        if self.per_choice > 1:
            outputs = outputs.unflatten(1, (-1, self.per_choice)).mean(-1)
        if self.mask is not None:
            outputs = torch.where(self._allowed(entries[ACTION_MASK]), outputs, FORBIDDEN)
        actions, outputs = self.decide(outputs)
        return actions, outputs, *(after[port.part] for port in self.carry)

    def _allowed(self, mask: Tensor) -> Tensor:
        """As `ActionMask.allowed`, without changing anything in place."""
        assert self.mask is not None
        parts = [(mask != 0)[:, part] for part in self.mask.parts]
        return torch.cat([part | ~part.any(-1, keepdim=True) for part in parts], -1)


def _decision(space: Space, squashes: bool) -> nn.Module:
    """How outputs become actions."""
    if isinstance(space, Box):
        return _Moves(space, squashes)
    assert isinstance(space, Discrete | MultiDiscrete)
    return _Chooses(space)


class _Chooses(nn.Module):
    """The highest of each part, in the environment's numbering."""

    def __init__(self, space: Discrete | MultiDiscrete) -> None:
        super().__init__()
        self.nvec = None if isinstance(space, Discrete) else space.nvec
        self.start: int | tuple[int, ...] = space.start

    def forward(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        if self.nvec is None:
            chosen = outputs.argmax(-1)
        else:
            chosen = torch.stack([part.argmax(-1) for part in torch.split(outputs, list(self.nvec), -1)], -1)
        return chosen + torch.tensor(self.start) if self.start else chosen, outputs


class _Moves(nn.Module):
    """Numbers inside the bounds, in the dtype of the space: clipped, or squashed and scaled."""

    low: Tensor
    high: Tensor

    def __init__(self, space: Box, tanh: bool) -> None:
        super().__init__()
        low, high = (torch.tensor(side) for side in space.bounds())
        self.register_buffer("low", low)
        self.register_buffer("high", high)
        self.size = space.size
        self.tanh = tanh
        self.dtype = low.dtype

    def forward(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        means = outputs[:, : self.size]
        actions = means
        if self.tanh:
            actions = torch.tanh(means) * ((self.high - self.low) / 2).float() + ((self.high + self.low) / 2).float()
        return torch.minimum(torch.maximum(actions.to(self.dtype), self.low), self.high), means
