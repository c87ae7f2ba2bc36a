"""The contract of Models. Programs take it from `rlstudio.core.contracts`, where all contracts are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from rlstudio.core.model.layers import ActionRule, Carry, Layers, Observations
    from rlstudio.core.model.policies import PlanPolicy, PlanValue

Weights: TypeAlias = "Mapping[str, np.ndarray]"


@runtime_checkable
class ForPlanning(Protocol):
    """What a planner may use of what an agent learned: a value and a policy of observations [..., O] alone."""

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue | None:
        """What it takes to be still to come, in the rewards it was trained with; None where it has no value.

        `learned` are the weights of all Models of its run by their names in `stateful()`: a critic that does not act is
        stored beside what does. Where only the acting Model is left, as in a bundle, it is empty.
        """
        ...

    def policy_for_plan(self) -> PlanPolicy | None:
        """What it would do; None where an observation alone does not decide it."""
        ...


@runtime_checkable
class Model(ForPlanning, Protocol):
    """The network that an agent acts with, an `nn.Module`: observations in, predictions out; it never samples.

    It says itself what others must know of it: the NumPy acting kernel, export, checkpoints and planners ask here and
    know no kinds. Its class is named in the catalog `MODELS` by its variant, and is called with (spaces, network, rng,
    **settings); `models/policies/policy_value.py` is an example. One that learns from more than it acts by says what is
    enough to act by, `acting_spaces`, and is built again from that.
    """

    variant: str
    reads: tuple[str, ...]  # columns of a Batch that it is called with: `model(**batch.only(model.reads))`

    def spec(self) -> dict[str, object]:
        """How it is built again, as `models/spec.py` has it: variant, network section and settings, in JSON values."""
        ...

    def action_rule(self) -> ActionRule:
        """How its outputs become actions."""
        ...

    def carry_shapes(self) -> dict[str, tuple[int, ...]]:
        """What is carried from step to step: the shape of a row by part; zeros where an episode starts."""
        ...

    def layers(self) -> Layers | None:
        """The network that acts, layer by layer; None where it is more than that, and only torch can run it."""
        ...

    def outputs(self, observations: Observations, carry: Carry | None = None) -> tuple[Tensor, Carry]:
        """What decides, [N, O], before any action mask, and the carry after it; no carry is an empty memory."""
        ...

    def plain(self) -> nn.Module:
        """The same as `outputs` from copies of the weights, in operations that an exporter can follow:
        forward(observations by entry, carry by part) -> (outputs, carry after). An observation that is no dict is the
        entry "". Where there are `layers`, `models.plain.plain_layers` makes it of them."""
        ...

    def __call__(self, **columns: Observations) -> object:
        """What its loss learns from: a policy, or a tuple of one and values, or values."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> object: ...
