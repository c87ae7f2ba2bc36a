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
    """How sequences are compared."""

    hashed_if_set: ClassVar[tuple[str, ...]] = ("score",)

    reward: Literal["native", "dense"] = "native"
    """Reward of a step: `native`, that of the environment, or `dense`, one that shows at every step how well it goes
    (CartPole-v1)."""

    value: Literal["own", "none", "physics"] = "own"
    """Value after the horizon: `own`, that of the agent if it has one; `none`; or `physics`, an estimate from energy or
    balance (MountainCar-v0, Acrobot-v1, CartPole-v1)."""

    pessimism: NonNegativeFloat = 0.0
    """How many standard deviations over the particles of an ensemble are subtracted from the mean return of a sequence
    (not mcts)."""

    score: ScorePartConfig = Field(default_factory=ScorePartConfig)
    """How the three settings above are combined into a score."""


class PlannerConfig(ScoreConfig, PartConfig):
    """Settings of other kinds are allowed and change nothing, so that one line changes the `kind`."""

    parts: ClassVar[Catalog] = PLANNERS

    kind: str = "cem"
    """How sequences are proposed and improved; packages add kinds (`rlctl plugins`)."""

    horizon: PositiveInt = Field(15, le=1000)
    """Steps that a plan looks ahead (all but mcts, whose tree is as deep as it grows)."""

    candidates: PositiveInt = Field(256, le=100_000)
    """Sequences that are tried in each round (all but mcts)."""

    iterations: PositiveInt | None = Field(None, le=1000)
    """Rounds of a plan (all but mcts and random_shooting); null: the usual number for the kind."""

    select: Literal["auto", "best", "mean", "first_action"] = "auto"
    """Which action is taken: that of the best sequence, that of the proposal's mean, or the discrete action that is
    best on average (all but mcts)."""

    gamma: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Discount within the horizon."""

    std: PositiveFloat | None = None
    """Standard deviation of the first proposals of continuous actions, in halves of the action range; null: the usual
    value for the kind."""

    min_std: NonNegativeFloat = 0.05
    """Standard deviation of continuous actions below which a proposal does not narrow (cem, icem, guided)."""

    temperature: PositiveFloat | None = None
    """How much worse than the best a sequence may be and still count (mppi, annealed, guided); null: the usual value
    for the kind."""

    elites: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the candidates that the next round follows (cem, icem, guided)."""

    momentum: Share = 0.1
    """Share of the old proposal that is kept in each round (cem, icem)."""

    simulations: PositiveInt = Field(32, le=2_000)
    """Steps in the model by which a tree grows (mcts); its memory grows with their square."""

    policy_candidates: PositiveInt = Field(24, le=100_000)
    """Additional sequences, which a policy proposes by acting in the model (guided)."""

    colour: NonNegativeFloat = 2.0
    """How similar neighbouring actions of a sequence are: the power of the noise falls with frequency^-colour; 0 is
    white noise."""

    keep: Share = 0.3
    """Share of the elites that are kept for the next round and the next plan (icem)."""

    shrink: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Factor by which the standard deviation of continuous actions shrinks in each round (annealed)."""

    sticky: Share = 0.0
    """Probability that a proposed action repeats the one before it (discrete actions only)."""
