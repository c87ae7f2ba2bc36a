"""The parts of the section `curriculum`: a class for each kind of it, and what their gates ask. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from rlstudio.core.config import Config, refuse

Share = Annotated[float, Field(ge=0, le=1)]
Given = dict[str, Annotated[float, Field(strict=True)] | dict[str, JsonValue]]
"""Parameters as `env.params` writes them: a number, or what it is drawn from."""

SUCCESS = "success"
SUCCESS_KEY = "is_success"
"""The key of an environment's info that says whether an episode succeeded, where nothing else is said."""

EVERY_EPISODE = ("return", "length", SUCCESS)
"""What can be asked of every episode; other names are keys of `env.infos`."""


class SuccessConfig(Config):
    metric: str = Field("return", max_length=64)
    """`return`, `length` or a key of `env.infos`."""

    at_least: float
    """An episode in which the metric reaches this is a success."""


class StageGateConfig(Config):
    metric: str = Field(SUCCESS, max_length=64)
    """Which value of an episode counts: `success`, `return`, `length` or a key of `env.infos`."""

    at_least: float
    """The mean over the window must reach it."""

    window: PositiveInt = Field(100, le=1_000_000)
    """How many of the latest episodes of the stage count."""

    min_episodes: PositiveInt | None = Field(None, le=1_000_000)
    """Episodes of the stage before the gate decides anything; null: a whole window."""

    patience: PositiveInt = Field(1, le=1_000_000)
    """Epochs in a row that must reach `at_least` (or, to go back, stay below `demote_below`)."""

    @property
    def needed(self) -> int:
        """Episodes before anything is decided."""
        return min(self.min_episodes or self.window, self.window)


class StageConfig(Config):
    name: str = Field(min_length=1, max_length=64)
    """What the stage is called in events and in `rlctl show`."""

    params: Given
    """What the parameters are drawn from in this stage, written as in `env.params`; every stage names the same
    parameters."""

    gate: StageGateConfig | None = None
    """Condition for the next stage; null: only `max_steps` leads there."""

    min_steps: NonNegativeInt = Field(0, le=10**15)
    """Environment steps before the stage may be left."""

    max_steps: PositiveInt | None = Field(None, le=10**15)
    """Environment steps after which `on_timeout` applies; null: the stage has no limit."""

    on_timeout: Literal["advance", "hold", "stop"] = "advance"
    """After `max_steps`: `advance` to the next stage, `hold` (stay in this one), or `stop` the run as failed."""

    keep: Share = 0.0
    """Share of the episodes that are drawn from earlier stages, from each of them equally often."""

    demote_below: float | None = None
    """The run goes back to the previous stage if the mean over the window falls below this; null: never."""


class AnnealConfig(Config):
    start: Given
    """What the parameters are drawn from at the start, written as in `env.params`."""

    end: Given
    """What the same parameters are drawn from at the end: the same distributions with other numbers."""

    over: float = Field(0.5, gt=0, le=1)
    """Share of the run after which `end` is reached."""


class LevelsConfig(Config):
    parameter: str = Field("level", min_length=1, max_length=64)
    """The parameter that chooses a level."""

    count: PositiveInt = Field(le=100_000)
    """Number of levels; they are numbered from 0."""

    score: Literal["learnability", "regret"] = "learnability"
    """What makes a level worth replaying. `learnability`: (p + 0.05) (1 - p), where p is its success rate; `regret`:
    its best return minus its mean return."""

    memory: float = Field(0.3, gt=0, le=1)
    """Weight of the newest episode in the running success rate and mean return of its level."""

    temperature: PositiveFloat = Field(0.3, le=1000)
    """Levels are drawn in proportion to (1 / rank) ^ (1 / temperature); a small value nearly always draws the best
    one."""

    staleness: Share = 0.1
    """Share of the replayed episodes whose level is chosen by how long ago it was played."""

    replay: Share = 0.5
    """Share of the episodes that replay a known level while some levels have never been played."""


class RangeConfig(Config):
    start: tuple[float, float]
    """[lowest, highest] value at the beginning; the range never becomes narrower."""

    limits: tuple[float, float]
    """[lowest, highest] value that the range may reach."""

    step: PositiveFloat
    """How far a boundary moves at a time."""

    @model_validator(mode="after")
    def _ordered(self) -> RangeConfig:
        (low, high), (lowest, highest) = self.start, self.limits
        if not lowest <= low <= high <= highest:
            refuse(("start",), f"[{low:g}, {high:g}] must be in order and inside limits [{lowest:g}, {highest:g}]")
        if lowest == highest:
            refuse(("limits",), f"[{lowest:g}, {highest:g}] leave nothing to widen; set the parameter in env.params")
        return self


class AdrConfig(Config):
    parameters: dict[str, RangeConfig] = Field(min_length=1, max_length=64)
    """The range of each parameter."""

    metric: str = Field(SUCCESS, max_length=64)
    """Which value of an episode counts: `success`, `return`, `length` or a key of `env.infos`."""

    widen_at: float
    """A boundary moves outwards when the mean of its episodes reaches this."""

    narrow_at: float
    """A boundary moves back when the mean of its episodes is this or less."""

    boundary_share: float = Field(0.5, gt=0, le=1)
    """Share of the episodes in which one parameter is at one of its boundaries."""

    buffer: PositiveInt = Field(20, le=1_000_000)
    """Episodes at a boundary that are judged together; then counting starts again."""

    @model_validator(mode="after")
    def _apart(self) -> AdrConfig:
        if not self.narrow_at < self.widen_at:
            refuse(("narrow_at",), f"{self.narrow_at:g} must be below widen_at {self.widen_at:g}")
        return self
