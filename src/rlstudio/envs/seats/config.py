"""The self_play section of an experiment: whom the learner meets. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator

from rlstudio.core.config import Config

LATEST, PAST, PLANNER, RANDOM = "latest", "past", "planner", "random"
LEARNED = (LATEST, PAST, PLANNER)
"""Opponents that come from the learner itself."""

Weight = Annotated[float, Field(ge=0)]


class SelfPlayConfig(Config):
    opponents: dict[str, Weight] = Field({LATEST: 0.5, PAST: 0.35, RANDOM: 0.15}, max_length=16)
    """How often each kind of opponent plays, as weights: `latest` (the learner as it is), `past` (a snapshot from the
    pool), `planner` (a tree search with the learner's network), `random`, and players of the environment, such as
    `minimax`."""

    pool: PositiveInt = Field(16, le=256)
    """How many snapshots are kept; the oldest is removed first."""

    snapshot_every: PositiveInt = Field(10, le=10**9)
    """Epochs between two snapshots of the learner for the pool."""

    snapshot_win_rate: Annotated[float, Field(gt=0, le=1)] | None = None
    """Take a snapshot earlier once the learner has won this share of an epoch's games against others than itself; null:
    never."""

    prioritise: Literal["hard", "even", "uniform"] = "hard"
    """How often a snapshot plays, by the share p of games that the learner wins against it: `hard` (1 - p)^2, `even` p
    (1 - p), `uniform` all equally."""

    simulations: PositiveInt = Field(32, le=10_000)
    """Simulations in each search of a `planner`."""

    @field_validator("opponents")
    @classmethod
    def _some_weight(cls, value: dict[str, float]) -> dict[str, float]:
        if not sum(value.values()) > 0:
            raise ValueError("every weight is 0, so nobody would be met; give at least one opponent a weight")
        return value
