"""A sweep as a file: which experiment, which settings to choose, how, and when to give one up. Free of torch."""

from __future__ import annotations

import itertools
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from rlstudio.core.catalog import SAMPLERS, Catalog
from rlstudio.core.config import Config
from rlstudio.core.parts import PartConfig
from rlstudio.experiment.config.experiment import NAME

Number = int | float
DEFAULT_METRIC = "eval/return_mean"
LONGEST_NAME = 48  # with the number of a trial behind it, it must fit the name of a run
RESERVED = ("show", "ls", "last")

SAMPLER_FIELDS: dict[str, tuple[str, ...]] = {
    "startup_trials": ("tpe",),
    "batch": ("random", "grid", "tpe"),
    "population": ("cmaes",),
    "interval": ("pbt",),
    "quantile": ("pbt",),
    "perturb": ("pbt",),
}
PRUNER_FIELDS: dict[str, tuple[str, ...]] = {
    "rungs": ("median", "asha"),
    "min_epochs": ("median", "asha", "hyperband"),
    "eta": ("median", "asha", "hyperband"),
    "startup_trials": ("median",),
}


class Dimension(Config):
    """One setting: a range (`low`, `high`) or a list (`choices`)."""

    low: Number | None = None
    """The smallest value."""

    high: Number | None = None
    """The largest value."""

    log: bool = False
    """Choose evenly in the logarithm."""

    step: Annotated[Number, Field(gt=0)] | None = None
    """Only low, low + step, low + 2 step, ..."""

    type: Literal["float", "int"] | None = None
    """Type of number; by default that of the value in the experiment."""

    choices: tuple[object, ...] | None = Field(None, min_length=1, max_length=1000)
    """The possible values, of any type."""

    when: dict[str, object] = Field(default_factory=dict)
    """Use this setting only if others have these values: path -> value, or list of values."""

    @model_validator(mode="after")
    def _whole(self) -> Dimension:
        if self.choices is not None:
            given = [name for name in ("low", "high", "log", "step", "type") if getattr(self, name)]
            if given:
                raise ValueError(f"choices and {given[0]} exclude each other; leave one out")
            if any(value in self.choices[:index] for index, value in enumerate(self.choices)):
                raise ValueError("a choice is listed twice; leave one out")
            return self
        if self.low is None or self.high is None:
            raise ValueError("give low and high, or choices")
        if self.low >= self.high:
            raise ValueError(f"low ({self.low}) must be below high ({self.high})")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("log needs low above 0, and no step")
        if self.type == "int" and any(value != int(value) for value in (self.low, self.high, self.step or 1)):
            raise ValueError("type: int needs whole numbers")
        return self


class SamplerConfig(PartConfig):
    """How the settings of the next trial are chosen."""

    parts: ClassVar[Catalog] = SAMPLERS

    kind: str = "random"
    """`random`, `grid` (every combination), `tpe`, `cmaes`, `pbt` (members copy better ones while they train), or a
    sampler of another package (`rlctl plugins`)."""

    seed: NonNegativeInt = Field(0, le=2**32 - 1)
    """Seed of the choices; those of trial n are drawn with (seed, n)."""

    startup_trials: PositiveInt = Field(10, le=10_000)
    """tpe: random trials before it starts to learn from results."""

    batch: PositiveInt | None = Field(None, le=10_000)
    """With `deterministic`: trials that are chosen together; by default all of them for random and grid, 5 for the
    others."""

    population: PositiveInt | None = Field(None, ge=3, le=1000)
    """cmaes: trials of a generation; by default 4 + 3 ln(dimensions)."""

    interval: PositiveInt = Field(10, le=10**9)
    """pbt: epochs between two comparisons."""

    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25
    """pbt: this share of the members, the worst, copies an equal share of the best."""

    perturb: tuple[float, float] = (0.8, 1.25)
    """pbt: a copied number is multiplied by one of these."""

    @model_validator(mode="after")
    def _own_fields(self) -> SamplerConfig:
        if self.kind in SAMPLERS.builtin:  # which fields a plug-in reads is its own business
            _only_own(self, self.kind, SAMPLER_FIELDS)
        return self

    @field_validator("perturb")
    @classmethod
    def _around_one(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not 0 < value[0] < 1 < value[1]:
            raise ValueError(f"one factor below 1 and one above, got {value[0]} and {value[1]}")
        return value


class PrunerConfig(Config):
    kind: Literal["none", "median", "asha", "hyperband"] = "none"
    """`none`, `median`, `asha` (successive halving) or `hyperband` (several halvings that start at different rungs)."""

    rungs: tuple[PositiveInt, ...] | None = Field(None, min_length=1, max_length=100)
    """Epochs at which trials are compared; by default min_epochs, min_epochs x eta, min_epochs x eta^2, ..."""

    min_epochs: PositiveInt | None = Field(None, le=10**9)
    """The first rung; by default the experiment's `eval.every_epochs`."""

    eta: int = Field(3, ge=2, le=100)
    """One in `eta` trials continues from a rung to the next."""

    startup_trials: PositiveInt = Field(4, le=10_000)
    """median: results that a rung needs before trials are judged there."""

    @model_validator(mode="after")
    def _own_fields(self) -> PrunerConfig:
        if self.rungs is not None and self.min_epochs is not None:
            raise ValueError("rungs and min_epochs exclude each other; leave one out")
        _only_own(self, self.kind, PRUNER_FIELDS)
        return self

    @field_validator("rungs")
    @classmethod
    def _rising(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is not None and any(low >= high for low, high in itertools.pairwise(value)):
            raise ValueError("rungs must rise")
        return value


class SweepConfig(Config):
    name: str
    """What the sweep is called; its runs are called `<name>-<trial>`."""

    experiment: str | dict[str, object]
    """The experiment: a file (beside this one, or `configs/...`), or its sections written here."""

    overrides: tuple[str, ...] = Field((), max_length=1000)
    """Settings that differ from the experiment in every trial, as on the command line: [train.epochs=30]."""

    metric: str = DEFAULT_METRIC
    """The metric of the runs by which trials are compared; by default the mean return of the evaluation."""

    direction: Literal["maximize", "minimize"] = "maximize"
    """`maximize`: a higher metric is better; `minimize`: a lower one."""

    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """A trial is judged by the lower bound of its mean over seeds, with this confidence; 0.5 is about the mean."""

    seeds: tuple[NonNegativeInt, ...] = Field((0,), min_length=1, max_length=1000)
    """Each trial has one run per seed."""

    trials: PositiveInt | None = Field(None, le=100_000)
    """Number of trials; by default all combinations for `grid`, the members for `pbt`."""

    max_concurrent: PositiveInt | None = Field(None, le=10_000)
    """Runs at the same time; by default as many as fit on this machine."""

    deterministic: bool = False
    """Choose and compare trials in fixed groups, so that neither timing nor `max_concurrent` affects the result."""

    sampler: SamplerConfig = Field(default_factory=SamplerConfig)
    """How settings are chosen."""

    pruner: PrunerConfig = Field(default_factory=PrunerConfig)
    """How poor trials are stopped early."""

    space: dict[str, Dimension] = Field(min_length=1, max_length=100)
    """Dotted path of a setting -> the values it may have."""

    def run_name(self, trial: int) -> str:
        """What the runs of a trial are called, one for each seed."""
        return f"{self.name}-{trial}"

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not NAME.fullmatch(value) or len(value) > LONGEST_NAME:
            raise ValueError(f"use 1 to {LONGEST_NAME} letters, digits, _ - or . (and neither - nor . first)")
        if value in RESERVED:
            raise ValueError(f"`{value}` means something else already; choose another name")
        return value

    @field_validator("seeds")
    @classmethod
    def _different(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a seed is listed twice; leave one out")
        return value

    @model_validator(mode="after")
    def _fits(self) -> SweepConfig:
        if self.trials is None and self.sampler.kind != "grid":
            raise ValueError(f"trials: say how many; only grid has an end of its own, not {self.sampler.kind}")
        if self.sampler.kind == "pbt":
            if self.pruner.kind != "none":
                raise ValueError(f"pruner: pbt gives up members by itself; leave {self.pruner.kind} out")
            if (self.trials or 0) < 2:
                raise ValueError("trials: pbt needs at least 2 members")
        return self


def _only_own(cfg: SamplerConfig | PrunerConfig, kind: str, owners: dict[str, tuple[str, ...]]) -> None:
    """Refuse a field that the chosen kind does not read: it would have no effect."""
    for name in sorted(cfg.model_fields_set):
        if name in owners and kind not in owners[name] and getattr(cfg, name) != type(cfg).model_fields[name].default:
            raise ValueError(f"{name} is for {' and '.join(owners[name])} and has no effect with {kind}; leave it out")
