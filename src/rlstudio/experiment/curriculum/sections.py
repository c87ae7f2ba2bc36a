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
    """An episode with this much of it is a success."""


class StageGateConfig(Config):
    metric: str = Field(SUCCESS, max_length=64)
    """What of an episode counts: `success`, `return`, `length` or a key of `env.infos`."""

    at_least: float
    """The mean over the window must reach it."""

    window: PositiveInt = Field(100, le=1_000_000)
    """The last so many episodes of the stage count."""

    min_episodes: PositiveInt | None = Field(None, le=1_000_000)
    """Episodes of the stage before anything is decided; null: a whole window."""

    patience: PositiveInt = Field(1, le=1_000_000)
    """Epochs in a row that must reach it (or, for `demote_below`, miss it)."""

    @property
    def needed(self) -> int:
        """Episodes before anything is decided."""
        return min(self.min_episodes or self.window, self.window)


class StageConfig(Config):
    name: str = Field(min_length=1, max_length=64)
    """What the stage is called in events and in `rlctl show`."""

    params: Given
    """What parameters are drawn from in this stage, written as in `env.params`; every stage sets the same ones."""

    gate: StageGateConfig | None = None
    """What leads to the next stage; null: only `max_steps` does."""

    min_steps: NonNegativeInt = Field(0, le=10**15)
    """Environment steps that the stage lasts at least."""

    max_steps: PositiveInt | None = Field(None, le=10**15)
    """Environment steps after which `on_timeout` is done; null: the stage may last for ever."""

    on_timeout: Literal["advance", "hold", "stop"] = "advance"
    """`advance` to the next stage, `hold` this one, or `stop` the run as failed."""

    keep: Share = 0.0
    """Share of the episodes that are drawn from earlier stages, each of them as often as the others."""

    demote_below: float | None = None
    """The mean over the window below which the run goes back to the stage before; null: it never does."""


class AnnealConfig(Config):
    start: Given
    """What parameters are drawn from at the beginning, written as in `env.params`."""

    end: Given
    """What the same parameters are drawn from at the end: of the same kind, with other numbers."""

    over: float = Field(0.5, gt=0, le=1)
    """Share of the run after which `end` is reached."""


class LevelsConfig(Config):
    parameter: str = Field("level", min_length=1, max_length=64)
    """The parameter that chooses a level."""

    count: PositiveInt = Field(le=100_000)
    """How many levels there are: 0, 1, ... up to this number less one."""

    score: Literal["learnability", "regret"] = "learnability"
    """What makes a level worth replaying: (p + 0.05) (1 - p) of its success rate p, or its best return less its mean
    one."""

    memory: float = Field(0.3, gt=0, le=1)
    """Weight of the newest episode in the success rate and the mean return of its level."""

    temperature: PositiveFloat = Field(0.3, le=1000)
    """Levels are drawn in proportion to (1 / rank) ^ (1 / temperature); small: nearly always the first."""

    staleness: Share = 0.1
    """Share of the replayed episodes that go to levels by how long ago they were played."""

    replay: Share = 0.5
    """Share of the episodes that replay a level while there are levels that were never played."""


class RangeConfig(Config):
    start: tuple[float, float]
    """[lowest, highest] value at the beginning; the range never becomes narrower."""

    limits: tuple[float, float]
    """[lowest, highest] value that the range may reach."""

    step: PositiveFloat
    """By how much a boundary moves."""

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
    """The ranges by parameter."""

    metric: str = Field(SUCCESS, max_length=64)
    """What of an episode counts: `success`, `return`, `length` or a key of `env.infos`."""

    widen_at: float
    """A boundary moves outwards where the mean of its episodes reaches this."""

    narrow_at: float
    """A boundary moves back where the mean of its episodes is no more than this."""

    boundary_share: float = Field(0.5, gt=0, le=1)
    """Share of the episodes that have one parameter at one of its boundaries."""

    buffer: PositiveInt = Field(20, le=1_000_000)
    """Episodes at a boundary that are judged together; then counting begins anew."""

    @model_validator(mode="after")
    def _apart(self) -> AdrConfig:
        if not self.narrow_at < self.widen_at:
            refuse(("narrow_at",), f"{self.narrow_at:g} must be below widen_at {self.widen_at:g}")
        return self
