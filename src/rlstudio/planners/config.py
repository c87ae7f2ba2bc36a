"""What a planner is made of: `planner.KEY=VALUE` of `rlctl eval --planner`. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from rlstudio.core.config import Config

Share = Annotated[float, Field(ge=0, le=1)]
Kind = Literal["random_shooting", "cem", "icem", "mppi", "annealed"]


class PlannerConfig(Config):
    kind: Kind = "cem"
    """How sequences are proposed and improved."""

    horizon: PositiveInt = Field(15, le=1000)
    """Steps that a plan looks ahead."""

    candidates: PositiveInt = Field(256, le=100_000)
    """Sequences that are tried in each round."""

    iterations: PositiveInt | None = Field(None, le=1000)
    """Rounds of a plan; null takes what the kind is known for."""

    select: Literal["auto", "best", "mean", "first_action"] = "auto"
    """What is done in the end: the best sequence, the middle of the proposal, or the choice that is best on average."""

    gamma: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Discount within the horizon."""

    std: PositiveFloat = 0.5
    """Spread of the first proposals, in halves of the action range."""

    min_std: NonNegativeFloat = 0.05
    """Spread that is always left."""

    temperature: PositiveFloat = 1.0
    """How much worse a sequence may be and still count (mppi, annealed)."""

    elites: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the candidates that the next round follows (cem, icem)."""

    momentum: Share = 0.1
    """Share of the old proposal that stays in each round (cem, icem)."""

    colour: NonNegativeFloat = 2.0
    """How alike neighbouring steps are (icem): power of the noise falls with frequency^-colour."""

    keep: Share = 0.3
    """Share of the elites that come along into the next round and the next plan (icem)."""

    shrink: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Factor of the spread from one round to the next (annealed)."""

    sticky: Share = 0.0
    """How likely a proposed choice repeats the one before it."""
