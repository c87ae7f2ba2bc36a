"""A Model in words: enough to build it again. Free of torch, so that it validates at once."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from rlstudio.models.config import NetworkConfig

Variant = Literal[
    "policy-value",
    "policy-only",
    "recurrent-policy-value",
    "q-value",
    "quantile-value",
    "squashed-policy",
    "deterministic-policy",
]


class ModelSpec(BaseModel):
    """Part of a bundle's spec.json and of a checkpoint's MANIFEST.json; the spaces stand beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    variant: Variant
    network: NetworkConfig
    quantiles: PositiveInt = Field(1, le=10_000)
    dueling: bool = False
