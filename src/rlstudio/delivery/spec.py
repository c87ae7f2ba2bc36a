"""spec.json: everything that a program needs to know about a shipped policy. Free of torch.

Part of it is stated (spaces, Model or plan, where it comes from), part follows from that (inputs and outputs of the
graph, scaling, mask, carry). A reader derives the second part again and refuses a file that says something else. What
only the agent itself knows, whether it squashes its actions, what it carries and the noise it plans with, is compared
once it is built.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import Model, State
from rlstudio.core.contracts.planning import AGE
from rlstudio.core.errors import BundleError, RLStudioError
from rlstudio.core.spaces import Box, MultiDiscrete, Spaces, check_shape, check_sizes, from_json, to_json
from rlstudio.delivery.plan import PlanSpec
from rlstudio.delivery.ports import NOISE, Port, action_port, carry_ports, observation_ports, output_port
from rlstudio.models.spec import ModelSpec
from rlstudio.storage.verified import LARGEST_NUMBER

SQUASHED, CLIPPED, PLANNED = "tanh, scaled to the bounds", "clipped to the bounds", "planned, within the bounds"
CHOSEN, PLANNED_CHOICE = "highest output of each part", "planned"


class NoiseFacts(NamedTuple):
    """The random numbers of one plan."""

    kind: str  # normal, uniform or gumbel
    shape: tuple[int, ...]

    def to_json(self) -> State:
        return {"kind": self.kind, "shape": list(self.shape)}


class ActingFacts(NamedTuple):
    """What only the agent itself knows."""

    squashes: bool = False
    carry: Mapping[str, tuple[int, ...]] = {}
    whole: frozenset[str] = frozenset()  # parts of the carry that are whole numbers
    noise: NoiseFacts | None = None  # None: it does not plan

    @classmethod
    def of(cls, model: Model) -> ActingFacts:
        return cls(model.action_rule().kind == "bounded", model.carry_shapes())

    @classmethod
    def stated(cls, derived: State) -> ActingFacts:
        """As a file says."""
        carry = {str(part): tuple(entry["shape"]) for part, entry in derived["carry"].items()}
        whole = frozenset(part for part, entry in derived["carry"].items() if entry.get("dtype") == "int64")
        noise = None
        if stated := derived.get("noise"):
            noise = NoiseFacts(str(stated["kind"]), tuple(stated["shape"]))
        for shape in (*carry.values(), *(() if noise is None else (noise.shape,))):
            check_shape(shape)
        return cls(derived["actions"]["rule"] == SQUASHED, carry, whole, noise)

    @property
    def ports(self) -> tuple[Port, ...]:
        """Everything that is carried."""
        return carry_ports(self.carry, self.whole)

    def inputs(self, spaces: Spaces) -> tuple[Port, ...]:
        """The inputs of the graph: observations, what is carried, and the noise of a plan."""
        noise = () if self.noise is None else (Port(NOISE, self.noise.shape, "float32"),)
        return (*observation_ports(spaces.observation), *self.graph_carry, *noise)

    def outputs(self, spaces: Spaces) -> tuple[Port, ...]:
        """Actions; what decided, unless a search did; what is carried on."""
        decided = (output_port(spaces.action),) if self.noise is None else ()
        return (action_port(spaces.action), *decided, *(port.after for port in self.graph_carry))

    @property
    def graph_carry(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if self.noise is None or port.part != AGE)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class BundleOrigin(_Part):
    """Where the policy comes from; fields that are not known of an imported one are null."""

    kind: Literal["run", "sb3"]
    run_id: str | None = None
    checkpoint: int | None = Field(None, ge=0, le=LARGEST_NUMBER)  # environment steps
    state_hash: str | None = None
    config_hash: str | None = None
    lineage: dict[str, Any] | None = None
    team: str | None = None  # of a run in which several policies learned

    @model_serializer(mode="wrap")
    def _without_empty_team(self, dump: SerializerFunctionWrapHandler) -> State:
        """As written before there were teams: older versions refuse a field that they do not know."""
        fields: State = dump(self)
        if self.team is None:
            fields.pop("team", None)
        return fields


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
    model: ModelSpec | None = None
    plan: PlanSpec | None = None  # of an agent that plans, in place of `model`
    observation: dict[str, Any]
    action: dict[str, Any]
    frame_stack: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None
    reward_scale: float | None = Field(None, gt=0, allow_inf_nan=False)  # what rewards, and values, were divided by
    returns: ReturnStatistics | None = None  # that scale was computed from; not there where rewards were not scaled
    parity: dict[str, Any]
    formats: dict[str, str]
    derived: dict[str, Any]

    @model_validator(mode="after")
    def _acts_by_one(self) -> Spec:
        if (self.model is None) == (self.plan is None):
            raise ValueError("model: a policy has either a model or a plan")
        return self

    @model_serializer(mode="wrap")
    def _without_the_other(self, dump: SerializerFunctionWrapHandler) -> State:
        """As written before there were plans: older versions refuse a field that they do not know."""
        fields: State = dump(self)
        del fields["plan" if self.plan is None else "model"]
        return fields

    @property
    def spaces(self) -> Spaces:
        return Spaces(from_json(self.observation), from_json(self.action))

    @property
    def observation_ports(self) -> tuple[Port, ...]:
        return observation_ports(self.spaces.observation)

    @property
    def carry_ports(self) -> tuple[Port, ...]:
        return ActingFacts.stated(self.derived).ports

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the graph."""
        return ActingFacts.stated(self.derived).inputs(self.spaces)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return ActingFacts.stated(self.derived).outputs(self.spaces)

    def to_bytes(self) -> bytes:
        """Without `returns` where there are none: older versions refuse a field that they do not know."""
        left_out = {"returns"} if self.returns is None else None
        return (self.model_dump_json(indent=2, exclude=left_out) + "\n").encode()


def derived(spaces: Spaces, model: ModelSpec | None, facts: ActingFacts) -> State:
    """What follows from the spaces and the Model, or the plan, written out for programs that know neither."""
    mask = ActionMask.of(spaces)
    carry = {
        port.part: {"shape": list(port.shape), **({"dtype": port.dtype} if port.part in facts.whole else {})}
        for port in facts.ports
    }
    return {
        "inputs": [port.to_json() for port in facts.inputs(spaces)],
        "outputs": [port.to_json() for port in facts.outputs(spaces)],
        "normalizer": model is not None and model.network.normalize_observations,
        "actions": _rule(spaces, facts),
        "action_mask": None
        if mask is None
        else {"entry": ACTION_MASK, "rule": "0 forbids a choice; a part with nothing but zeros forbids nothing"},
        "carry": {part: {**entry, "starts_with": 0} for part, entry in carry.items()},
        **({} if facts.noise is None else {"noise": facts.noise.to_json()}),
    }


def _rule(spaces: Spaces, facts: ActingFacts) -> dict[str, object]:
    """How actions come about."""
    action, plans = spaces.action, facts.noise is not None
    if isinstance(action, Box):
        low, high = ([repr(float(v)) for v in side.ravel()] for side in action.bounds())
        return {"rule": PLANNED if plans else SQUASHED if facts.squashes else CLIPPED, "low": low, "high": high}
    start = list(action.start) if isinstance(action, MultiDiscrete) else getattr(action, "start", 0)
    return {"rule": PLANNED_CHOICE if plans else CHOSEN, "start": start or 0}


def read_spec(data: bytes, label: str) -> Spec:
    """The spec of verified bytes, each field checked."""
    try:
        spec = Spec.model_validate_json(data)
        spaces = spec.spaces
        for space in (spaces.observation, spaces.action):
            check_sizes(space)
        facts = ActingFacts.stated(spec.derived)
        same = spec.derived == derived(spaces, spec.model, facts) and (spec.plan is None) == (facts.noise is None)
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
