"""What a planner is made of: `planner.KEY=VALUE` of `rlctl eval --planner`. Free of torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from rlstudio.core.catalog import PLANNERS, SCORES, Catalog
from rlstudio.core.config import Config
from rlstudio.core.parts import PartConfig

Share = Annotated[float, Field(ge=0, le=1)]


class ScorePartConfig(PartConfig):
    """How a sequence is scored; a score of another package extends this with its own settings."""

    parts: ClassVar[Catalog] = SCORES

    kind: str = "returns"
    """`returns` sums the rewards of a sequence and what comes after it; packages add others (`rlctl plugins`)."""


class ScoreConfig(Config):
    """What makes one sequence better than another."""

    hashed_if_set: ClassVar[tuple[str, ...]] = ("score",)

    reward: Literal["native", "dense"] = "native"
    """What a step is worth: the world's own reward, or one that says in each step how well it goes (CartPole-v1)."""

    value: Literal["own", "none", "physics"] = "own"
    """What comes after the horizon: the agent's own value where it has one, nothing, or a guess by the energy or the
    balance (MountainCar-v0, Acrobot-v1, CartPole-v1)."""

    pessimism: NonNegativeFloat = 0.0
    """Standard deviations over the particles of an ensemble that are taken off a sequence's mean return (not mcts)."""

    score: ScorePartConfig = Field(default_factory=ScorePartConfig)
    """What the three settings above are put together by."""


class PlannerConfig(ScoreConfig, PartConfig):
    """Settings of another kind are allowed and change nothing, so that `kind` is swapped by one line."""

    parts: ClassVar[Catalog] = PLANNERS

    kind: str = "cem"
    """How sequences are proposed and improved; packages add kinds (`rlctl plugins`)."""

    horizon: PositiveInt = Field(15, le=1000)
    """Steps that a plan looks ahead (all but mcts, whose tree is as deep as it grows)."""

    candidates: PositiveInt = Field(256, le=100_000)
    """Sequences that are tried in each round (all but mcts)."""

    iterations: PositiveInt | None = Field(None, le=1000)
    """Rounds of a plan (all but mcts and random_shooting); null takes what the kind is known for."""

    select: Literal["auto", "best", "mean", "first_action"] = "auto"
    """What is done in the end: the best sequence, the middle of the proposal, or the choice that is best on average
    (all but mcts)."""

    gamma: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Discount within the horizon."""

    std: PositiveFloat | None = None
    """Spread of the first proposals of numbers, in halves of the action range; null takes what suits the kind."""

    min_std: NonNegativeFloat = 0.05
    """Spread of numbers that is always left (cem, icem, guided)."""

    temperature: PositiveFloat | None = None
    """How much worse a sequence may be and still count (mppi, annealed, guided); null takes what suits the kind."""

    elites: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the candidates that the next round follows (cem, icem, guided)."""

    momentum: Share = 0.1
    """Share of the old proposal that stays in each round (cem, icem)."""

    simulations: PositiveInt = Field(32, le=2_000)
    """Steps in the model that a tree is grown by (mcts); its memory grows with their square."""

    policy_candidates: PositiveInt = Field(24, le=100_000)
    """Sequences beside the others that a policy proposes by acting in the model (guided)."""

    colour: NonNegativeFloat = 2.0
    """How alike neighbouring numbers of a sequence are: power of the noise falls with frequency^-colour; 0 is white."""

    keep: Share = 0.3
    """Share of the elites that come along into the next round and the next plan (icem)."""

    shrink: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Factor of the spread of numbers from one round to the next (annealed)."""

    sticky: Share = 0.0
    """How likely a proposed choice repeats the one before it (choices only)."""
