"""How the outputs of a Model become actions, and the network that gives them, layer by layer, in plain tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

Observations: TypeAlias = "Tensor | dict[str, Tensor]"
Carry: TypeAlias = "dict[str, Tensor]"

RuleKind = Literal["policy", "values", "bounded"]


class StateNoise(NamedTuple):
    """Noise h(s) W of the last hidden layer h, with a W that is held for several steps; see
    `models/policies/state_dependent.py`."""

    log_std: Tensor  # [H, D], of W
    hold: int  # steps
    with_hidden: Callable[[Observations], tuple[Tensor, Tensor]]  # rows [N] -> outputs [N, D] and h [N, H]


class ActionRule(NamedTuple):
    """How the outputs of a Model become actions. Each kind is an agent (`agents/rebuild.py`):

    policy   logits of choices, or means of numbers, which are clipped to the bounds
    values   what each choice is worth; the highest is taken
    bounded  means of numbers, which a tanh squashes into the bounds; where it `samples`, their log stds after them
    """

    kind: RuleKind
    outputs: int  # numbers that the network gives for a row
    log_std: Tensor | None = None  # policy: of numbers, where it is the same in every state
    state_noise: StateNoise | None = None  # policy, bounded: instead of a log std
    samples: bool = True  # bounded: whether it has a spread at all
    per_choice: int = 1  # values: numbers for each choice, whose mean is its worth


class Linear(NamedTuple):
    """Of a Model on flat storage the tensors are views of it: `storage_offset()` is their place there."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor  # [outputs]


class Moments(NamedTuple):
    """A normalizer: clamp((x - mean) * inverse_std, -clip, clip)."""

    mean: Tensor
    inverse_std: Tensor
    clip: float


class MemoryLayers(NamedTuple):
    """Memories of `size` units side by side; for the formulas see `models/networks/memory.py`."""

    kind: str  # "gru" or "lstm"
    parts: tuple[str, ...]  # what is carried, [memories, size] each; the network sees the first part of the first one
    memories: int
    size: int
    inputs: Linear
    recurrent: Linear


class Layers(NamedTuple):
    """The network that acts, from `size` numbers of an observation to its outputs: normalizer, memory, then linear
    layers with an activation between them. The tensors are those that learn, not copies."""

    size: int
    linears: tuple[Linear, ...]
    activation: str
    entry: str | None = None  # the entry of a dict observation that has the numbers
    moments: Moments | None = None
    memory: MemoryLayers | None = None
