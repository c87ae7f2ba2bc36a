"""The section `curriculum`: how the parameters of the environments change while a run learns. Free of torch."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Literal

from pydantic import Field, JsonValue, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from rlstudio.core.config import Config, refuse
from rlstudio.core.parsing.yaml_file import KeyPath
from rlstudio.envs.params.distributions import Choice, Distribution, Normal, distribution

Share = Annotated[float, Field(ge=0, le=1)]
Given = dict[str, Annotated[float, Field(strict=True)] | dict[str, JsonValue]]
"""Parameters as `env.params` writes them: a number, or what it is drawn from."""

SUCCESS = "success"
SUCCESS_KEY = "is_success"
"""The key of an environment's info that says whether an episode succeeded, where nothing else is said."""

EVERY_EPISODE = ("return", "length", SUCCESS)
"""What can be asked of every episode; other names are keys of `env.infos`."""

KINDS = ("stages", "anneal", "levels", "adr")


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
    """What makes a level worth replaying: p (1 - p) of its success rate p, or its best return less its mean one."""

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


class CurriculumConfig(Config):
    success: SuccessConfig | None = None
    """When an episode is a success; null: when its info says so, by `is_success` of `env.infos`."""

    stages: tuple[StageConfig, ...] = Field((), max_length=1000)
    """Stages one after the other, each left through a gate."""

    anneal: AnnealConfig | None = None
    """Ranges that move with the share of the run that is done."""

    levels: LevelsConfig | None = None
    """Prioritised level replay: levels are played as often as there is something to learn in them."""

    adr: AdrConfig | None = None
    """Automatic domain randomisation: ranges widen where the policy holds at their boundaries."""

    @model_validator(mode="after")
    def _one_kind(self) -> CurriculumConfig:
        given = [kind for kind in KINDS if getattr(self, kind)]
        if len(given) != 1:
            named = " and ".join(given) or "none"
            refuse((), f"a curriculum has one of {', '.join(KINDS)}, and this one has {named}")
        for path, asked in self._asked():
            _check_drawn(path, asked)
        _check_stages(self.stages)
        if self.anneal is not None:
            _check_anneal(self.anneal)
        return self

    def _asked(self) -> list[tuple[KeyPath, Given]]:
        asked: list[tuple[KeyPath, Given]] = [(("stages", i, "params"), s.params) for i, s in enumerate(self.stages)]
        if self.anneal is not None:
            asked += [(("anneal", "start"), self.anneal.start), (("anneal", "end"), self.anneal.end)]
        return asked

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that it sets."""
        if self.levels is not None:
            return (self.levels.parameter,)
        if self.adr is not None:
            return tuple(self.adr.parameters)
        return tuple(self.stages[0].params if self.anneal is None else self.anneal.start)

    def metrics(self) -> list[tuple[KeyPath, str]]:
        """What is asked of episodes, and where the config says so."""
        asked: list[tuple[KeyPath, str]] = []
        for number, stage in enumerate(self.stages):
            if stage.gate is not None:
                asked.append((("stages", number, "gate", "metric"), stage.gate.metric))
        if self.adr is not None:
            asked.append((("adr", "metric"), self.adr.metric))
        if self.levels is not None:
            by_score = SUCCESS if self.levels.score == "learnability" else "return"
            asked.append((("levels", "score"), by_score))
        if self.success is not None:
            asked.append((("success", "metric"), self.success.metric))
        return asked


def drawn_from(given: Given) -> dict[str, Distribution]:
    return {name: distribution(value) for name, value in given.items()}


def check_metrics(curriculum: CurriculumConfig, infos: tuple[str, ...]) -> None:
    """Whatever it asks of an episode must be there; `infos` are the keys of `env.infos`."""
    for path, metric in curriculum.metrics():
        if metric == SUCCESS and path[0] == SUCCESS:
            refuse(("curriculum", *path), "success cannot be defined by itself; use return, length or a key of infos")
        if metric == SUCCESS and curriculum.success is None and SUCCESS_KEY not in infos:
            refuse(
                ("curriculum", *path),
                "nothing says what a success is; set curriculum.success, for example {metric: return, at_least: 100},"
                f" or keep {SUCCESS_KEY} of the info by env.infos",
            )
        if metric not in EVERY_EPISODE and metric not in infos:
            known = ", ".join((*EVERY_EPISODE, *infos))
            refuse(("curriculum", *path), f"episodes have no {metric!r}; known: {known}; more by env.infos")


def _check_drawn(path: KeyPath, given: Given) -> None:
    if not given:
        refuse(path, "no parameter is set; name at least one")
    for name, value in given.items():
        try:
            distribution(value)
        except ValueError as error:
            refuse((*path, name), str(error))


def _check_stages(stages: tuple[StageConfig, ...]) -> None:
    for number, stage in enumerate(stages):
        first = stages[0]
        if stage.name in (other.name for other in stages[:number]):
            refuse(("stages", number, "name"), f"{stage.name!r} is the name of an earlier stage; choose another")
        if odd := sorted(stage.params.keys() ^ first.params.keys()):
            setter, other = (stage, first) if odd[0] in stage.params else (first, stage)
            refuse(
                ("stages", number, "params"),
                f"stage {setter.name!r} sets {odd[0]} and stage {other.name!r} does not; set it in every stage",
            )
        is_last = number == len(stages) - 1
        leaves = stage.gate is not None or (stage.max_steps is not None and stage.on_timeout == "advance")
        if not is_last and not leaves:
            refuse(("stages", number), f"stage {stage.name!r} has no way out; give it a gate, or max_steps")
        if stage.demote_below is not None:
            _check_demotion(stage, number)
        if stage.max_steps is not None and stage.max_steps < stage.min_steps:
            refuse(("stages", number, "max_steps"), f"{stage.max_steps} is less than min_steps {stage.min_steps}")


def _check_demotion(stage: StageConfig, number: int) -> None:
    path: KeyPath = ("stages", number, "demote_below")
    if number == 0:
        refuse(path, "there is no stage before the first; leave it out")
    if stage.gate is None:
        refuse(path, "the gate says which metric is meant; give the stage one")
    if stage.demote_below is not None and stage.demote_below >= stage.gate.at_least:
        refuse(path, f"{stage.demote_below:g} must be below the gate's at_least {stage.gate.at_least:g}")


def _check_anneal(anneal: AnnealConfig) -> None:
    if odd := sorted(anneal.start.keys() ^ anneal.end.keys()):
        refuse(("anneal", "end"), f"{odd[0]} is set in one of start and end only; set it in both")
    start, end = drawn_from(anneal.start), drawn_from(anneal.end)
    for name in start:
        if not _is_alike(start[name], end[name]):
            refuse(
                ("anneal", "end", name),
                "start and end must be of one kind, with numbers that can move: two numbers, uniform, log_uniform or"
                " normal",
            )


def _is_alike(one: Distribution, other: Distribution) -> bool:
    """Whether the numbers of the one can move to those of the other."""
    if isinstance(one, Normal) and isinstance(other, Normal):
        bounded = [[isfinite(bound) for bound in (normal.low, normal.high)] for normal in (one, other)]
        return bounded[0] == bounded[1]
    return type(one) is type(other) and not isinstance(one, Choice)
