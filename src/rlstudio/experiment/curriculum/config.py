"""The section `curriculum`: how the parameters of the environments change while a run learns. Free of torch."""

from __future__ import annotations

from math import isfinite

from pydantic import Field, model_validator

from rlstudio.core.config import Config, refuse
from rlstudio.core.parsing.yaml_file import KeyPath
from rlstudio.envs.params.distributions import Choice, Distribution, Normal, distribution
from rlstudio.experiment.curriculum.sections import (
    EVERY_EPISODE,
    SUCCESS,
    SUCCESS_KEY,
    AdrConfig,
    AnnealConfig,
    Given,
    LevelsConfig,
    StageConfig,
    SuccessConfig,
)

KINDS = ("stages", "anneal", "levels", "adr")


class CurriculumConfig(Config):
    success: SuccessConfig | None = None
    """When an episode counts as a success; null: when its info says so, by `is_success` in `env.infos`."""

    stages: tuple[StageConfig, ...] = Field((), max_length=1000)
    """Stages in order; the gate of a stage leads to the next one."""

    anneal: AnnealConfig | None = None
    """Ranges that move gradually from a start to an end during the run."""

    levels: LevelsConfig | None = None
    """Prioritised level replay: levels from which more can be learned are played more often."""

    adr: AdrConfig | None = None
    """Automatic domain randomisation: ranges widen while the policy does well at their boundaries."""

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
