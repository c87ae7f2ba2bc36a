"""spec.json: everything that a program needs to know about a shipped policy. Free of torch.

Part of it is stated (spaces, Model, where it comes from), part follows from that (inputs and outputs of the graph,
scaling, mask, carry). A reader derives the second part again and refuses a file that says something else. What only the
Model itself knows, whether it squashes its actions and what it carries, is compared once the Model is built.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import Model, State
from rlstudio.core.errors import BundleError, RLStudioError
from rlstudio.core.spaces import Box, MultiDiscrete, Spaces, check_shape, check_sizes, from_json, to_json
from rlstudio.delivery.ports import Port, action_port, carry_ports, observation_ports, output_port
from rlstudio.models.spec import ModelSpec

SQUASHED, CLIPPED = "tanh, scaled to the bounds", "clipped to the bounds"


class ActingFacts(NamedTuple):
    """What only the Model itself knows."""

    squashes: bool = False
    carry: Mapping[str, tuple[int, ...]] = {}

    @classmethod
    def of(cls, model: Model) -> ActingFacts:
        return cls(model.action_rule().kind == "bounded", model.carry_shapes())

    @classmethod
    def stated(cls, derived: State) -> ActingFacts:
        """As a file says."""
        carry = {str(part): tuple(entry["shape"]) for part, entry in derived["carry"].items()}
        for shape in carry.values():
            check_shape(shape)
        return cls(derived["actions"]["rule"] == SQUASHED, carry)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class BundleOrigin(_Part):
    """Where the policy comes from; fields that are not known of an imported one are null."""

    kind: Literal["run", "sb3"]
    run_id: str | None = None
    checkpoint: int | None = Field(None, ge=0)  # environment steps
    state_hash: str | None = None
    config_hash: str | None = None
    lineage: dict[str, Any] | None = None


class ReturnStatistics(_Part):
    """Running moments of the discounted return, by whose spread rewards were divided in training."""

    count: float = Field(gt=0, allow_inf_nan=False)
    mean: float = Field(allow_inf_nan=False)
    variance: float = Field(ge=0, allow_inf_nan=False)

    @property
    def scale(self) -> float:
        return math.sqrt(self.variance + 1e-8)


class Spec(_Part):
    format: Literal[1]
    rlstudio: str = Field(max_length=100)  # the version that wrote it
    name: str = Field(max_length=200)
    algo: str = Field(max_length=200)
    env_id: str | None = Field(None, max_length=200)
    origin: BundleOrigin
    model: ModelSpec
    observation: dict[str, Any]
    action: dict[str, Any]
    frame_stack: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None
    reward_scale: float | None = Field(None, gt=0, allow_inf_nan=False)  # what rewards, and values, were divided by
    returns: ReturnStatistics | None = None  # that scale was computed from; not there where rewards were not scaled
    parity: dict[str, Any]
    formats: dict[str, str]
    derived: dict[str, Any]

    @property
    def spaces(self) -> Spaces:
        return Spaces(from_json(self.observation), from_json(self.action))

    @property
    def observation_ports(self) -> tuple[Port, ...]:
        return observation_ports(self.spaces.observation)

    @property
    def carry_ports(self) -> tuple[Port, ...]:
        return carry_ports(ActingFacts.stated(self.derived).carry)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the graph: observations, then what is carried."""
        return (*self.observation_ports, *self.carry_ports)

    @property
    def outputs(self) -> tuple[Port, ...]:
        action = self.spaces.action
        return (action_port(action), output_port(action), *(port.after for port in self.carry_ports))

    def to_bytes(self) -> bytes:
        """Without `returns` where there are none: older versions refuse a field that they do not know."""
        left_out = {"returns"} if self.returns is None else None
        return (self.model_dump_json(indent=2, exclude=left_out) + "\n").encode()


def derived(spaces: Spaces, model: ModelSpec, facts: ActingFacts) -> State:
    """What follows from the spaces and the Model, written out for programs that know neither."""
    action, carry = spaces.action, carry_ports(facts.carry)
    rule: dict[str, object]
    if isinstance(action, Box):
        low, high = ([repr(float(v)) for v in side.ravel()] for side in action.bounds())
        rule = {"rule": SQUASHED if facts.squashes else CLIPPED, "low": low, "high": high}
    else:
        start = list(action.start) if isinstance(action, MultiDiscrete) else getattr(action, "start", 0)
        rule = {"rule": "highest output of each part", "start": start or 0}
    mask = ActionMask.of(spaces)
    return {
        "inputs": [port.to_json() for port in (*observation_ports(spaces.observation), *carry)],
        "outputs": [
            port.to_json() for port in (action_port(action), output_port(action), *(port.after for port in carry))
        ],
        "normalizer": model.network.normalize_observations,
        "actions": rule,
        "action_mask": None
        if mask is None
        else {"entry": ACTION_MASK, "rule": "0 forbids a choice; a part with nothing but zeros forbids nothing"},
        "carry": {port.part: {"shape": list(port.shape), "starts_with": 0} for port in carry},
    }


def read_spec(data: bytes, label: str) -> Spec:
    """The spec of verified bytes, each field checked."""
    try:
        spec = Spec.model_validate_json(data)
        spaces = spec.spaces
        for space in (spaces.observation, spaces.action):
            check_sizes(space)
        same = spec.derived == derived(spaces, spec.model, ActingFacts.stated(spec.derived))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise BundleError(f"{label}: {where}: {first['msg']}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RLStudioError) as error:
        raise BundleError(f"{label}: not a description of a policy: {type(error).__name__} {error}") from error
    if not same:
        raise BundleError(f"{label}: `derived` does not follow from its spaces and its Model")
    if spec.observation != to_json(spaces.observation) or spec.action != to_json(spaces.action):
        raise BundleError(f"{label}: its spaces are not written as RLStudio writes them")
    return spec
