"""A Model in words: enough to build it again. Free of torch, so that it validates at once."""

from __future__ import annotations

import json

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)

from rlstudio.core.catalog import MODELS
from rlstudio.core.contracts import State
from rlstudio.core.errors import UserError
from rlstudio.models.config import NetworkConfig


class ModelSpec(BaseModel):
    """Part of a bundle's spec.json and of a checkpoint's MANIFEST.json; the spaces stand beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    variant: str
    network: NetworkConfig
    quantiles: PositiveInt = Field(1, le=10_000)
    dueling: bool = False
    settings: dict[str, JsonValue] = {}
    """What else the class takes: of a Model from another package, or what a central critic reads."""

    @field_validator("variant")
    @classmethod
    def _known(cls, variant: str) -> str:
        try:
            MODELS.find(variant)
        except UserError as error:
            raise ValueError(f"{error}; install the package that has it") from error
        return variant

    @model_serializer(mode="wrap")
    def _without_empty_settings(self, dump: SerializerFunctionWrapHandler) -> State:
        """As written before there were settings: older versions refuse a field that they do not know."""
        fields: State = dump(self)
        if not self.settings:
            del fields["settings"]
        return {**fields, "network": _as_before(fields["network"])}

    @property
    def arguments(self) -> State:
        """What the class is called with besides spaces, network and rng: all that is not as usual."""
        usual = {"quantiles": 1, "dueling": False}
        return {**{name: value for name, value in self if name in usual and value != usual[name]}, **self.settings}


def model_fields(variant: str, network: NetworkConfig, **fields: JsonValue) -> State:
    """What `Model.spec` gives: plain JSON values."""
    return {"variant": variant, "network": _as_before(network.model_dump(mode="json")), **fields}


def _as_before(network: State) -> State:
    """Without what is as it always was: older versions refuse a field that they do not know."""
    return {name: value for name, value in network.items() if (name, value) != ("critic", "local")}


def read_model_fields(fields: State) -> ModelSpec:
    """What `Model.spec` gave, checked."""
    return ModelSpec.model_validate_json(json.dumps(fields))
