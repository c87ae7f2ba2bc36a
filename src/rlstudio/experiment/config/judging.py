"""The sections `gates` and `guardrails`: what a run must reach, when it may end, what must not be. Free of torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from rlstudio.core.config import Config
from rlstudio.core.parsing.names import Rule

Share = Annotated[float, Field(ge=0, le=1)]


class PlateauConfig(Config):
    metric: str = Field("eval/return_mean", min_length=1, max_length=200)
    """The metric that must improve, for example rollout/return_mean, train/loss or one of your own."""

    epochs: PositiveInt = Field(le=10**9)
    """Epochs without an improvement after which the run ends."""

    min_delta: Annotated[float, Field(ge=0)] = 0.0
    """How much better than the best so far a value must be to count as an improvement."""

    direction: Literal["maximize", "minimize"] = "maximize"
    """`maximize`: a higher metric is better; `minimize`: a lower one."""


class GatesConfig(Config):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("stop_at", "stop_after", "plateau")

    min_return: float | None = None
    """The mean evaluation return must be at least this."""

    min_lower_bound: float | None = None
    """The lower end of the mean's confidence interval must be at least this."""

    max_std: Annotated[float, Field(ge=0)] | None = None
    """The standard deviation of the episode returns must be at most this."""

    warmup_epochs: NonNegativeInt = Field(0, le=10**9)
    """Evaluations up to this epoch do not count for the gates."""

    patience: PositiveInt = Field(1, le=10**9)
    """The run fails after this many evaluations in a row that miss a gate."""

    stop_at: float | None = None
    """The mean evaluation return at which the run ends early, as completed; null: it trains to its last epoch."""

    stop_after: PositiveInt = Field(1, le=10**9)
    """Evaluations in a row that must reach `stop_at`."""

    plateau: PlateauConfig | None = None
    """End the run early, as completed, when a metric no longer improves; null: it trains to its last epoch."""


class GuardrailsConfig(Config):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("ignore",)

    reward_clip: PositiveFloat | None = None
    """Rewards are clipped to [-reward_clip, reward_clip] before learning; null: they are not clipped."""

    reward_range: tuple[float, float] | None = None
    """[lowest, highest] reward the environment may give; a row outside it is bad."""

    check_actions: bool = True
    """A row is bad if its action does not exist, or lies more than fifty times the width of its range outside it."""

    max_bad_rows: Share = 0.01
    """Share of an epoch's rows that may be bad before the run fails; bad rows are never learned from."""

    max_skipped: Share = 0.5
    """Share of an epoch's updates that may be skipped before the run rolls back."""

    limits: dict[str, PositiveFloat] = Field(default_factory=dict, max_length=64)
    """Metric name -> largest absolute value in a healthy epoch, for example {train/kl: 0.5}; above it the run rolls
    back."""

    ignore: tuple[Rule, ...] = ()
    """Rules on updates that are switched off, by the name that an incident shows."""

    rollback_every_epochs: PositiveInt = Field(25, le=10**9)
    """Epochs between two points that a diverged run can go back to."""

    max_rollbacks: NonNegativeInt = Field(3, le=1000)
    """Roll-backs before the run fails."""

    @field_validator("reward_range")
    @classmethod
    def _ordered(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and value[0] >= value[1]:
            raise ValueError(f"the lowest reward {value[0]} must be below the highest {value[1]}")
        return value
