"""Stages, each left through a gate.

    advance    the mean of the gate's metric over the last `window` episodes of the stage is at least `at_least`, in
               `patience` epochs in a row, with `min_episodes` of them and after `min_steps`
    demote     that mean is below `demote_below`, as often and as long
    timeout    after `max_steps`: the next stage, this one, or the end of the run

Component k is stage k. In stage s it has the weight 1 - keep for k = s, keep / s for k < s, and 0 for k > s, so that
earlier stages are not forgotten. Only episodes of stage s count for its gate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import isnan, nan

from rlstudio.core.contracts import State
from rlstudio.envs.params.distributions import Distribution
from rlstudio.envs.params.draw import Component, Draw
from rlstudio.experiment.curriculum.changes import NO_CHANGE, Change, CurriculumOutcome
from rlstudio.experiment.curriculum.config import drawn_from
from rlstudio.experiment.curriculum.episodes import Episodes, Measure
from rlstudio.experiment.curriculum.sections import SUCCESS, StageConfig

EVENT = "curriculum_stage"


class Stages:
    def __init__(self, stages: Sequence[StageConfig], others: Mapping[str, Distribution], measure: Measure) -> None:
        self._stages = stages
        self._params = [{**others, **drawn_from(stage.params)} for stage in stages]
        self._measure = measure
        self.stage = 0
        self.version = 0
        self._enter(0, env_steps=0)

    def _enter(self, stage: int, env_steps: int) -> None:
        gate = self._stages[stage].gate
        self.stage = stage
        self._entered = env_steps
        self._window: deque[float] = deque(maxlen=1 if gate is None else gate.window)
        self._hits = self._misses = 0  # epochs in a row
        self._held = False  # it is known that the stage lasts longer than it should

    @property
    def draw(self) -> Draw:
        keep = self._stages[self.stage].keep if self.stage else 0.0
        weights = [keep / self.stage] * self.stage if self.stage else []
        weights += [1.0 - keep] + [0.0] * (len(self._stages) - self.stage - 1)
        parts = zip(weights, self._params, self._stages, strict=True)
        return Draw(self.version, tuple(Component(weight, params, stage.name) for weight, params, stage in parts))

    @property
    def value(self) -> float:
        """The mean over the window; NaN of an empty one."""
        return sum(self._window) / len(self._window) if self._window else nan

    def update(self, episodes: Episodes, env_steps: int) -> CurriculumOutcome:
        stage = self._stages[self.stage]
        self._count(stage, episodes)
        lasted = env_steps - self._entered
        patience = 1 if stage.gate is None else stage.gate.patience
        if lasted >= stage.min_steps:
            if self._hits >= patience and self.stage + 1 < len(self._stages):
                return self._go(self.stage + 1, env_steps, "gate")
            if self._misses >= patience:
                return self._go(self.stage - 1, env_steps, "demoted")
        if stage.max_steps is not None and lasted >= stage.max_steps and not self._held:
            return self._time_out(stage, env_steps)
        return NO_CHANGE

    def _count(self, stage: StageConfig, episodes: Episodes) -> None:
        gate = stage.gate
        if gate is None:
            return
        values = zip(self._measure(gate.metric, episodes), episodes.components, strict=True)
        new = [value for value, component in values if component == self.stage and not isnan(value)]
        self._window.extend(new)
        if not new or len(self._window) < gate.needed:
            return  # an epoch without episodes of this stage says nothing about it
        self._hits = self._hits + 1 if self.value >= gate.at_least else 0
        below = stage.demote_below is not None and self.value < stage.demote_below
        self._misses = self._misses + 1 if below else 0

    def _time_out(self, stage: StageConfig, env_steps: int) -> CurriculumOutcome:
        if stage.on_timeout == "advance" and self.stage + 1 < len(self._stages):
            return self._go(self.stage + 1, env_steps, "timeout")
        if stage.on_timeout == "stop":
            reached = "" if stage.gate is None else f": {stage.gate.metric} is {self.value:.4g}"
            wanted = "" if stage.gate is None else f", at_least {stage.gate.at_least:g} is wanted"
            return CurriculumOutcome(
                failure=f"curriculum: stage {stage.name!r} was not passed within its max_steps={stage.max_steps:,}"
                f"{reached}{wanted}; give it more steps, or make it easier"
            )
        self._held = True
        return CurriculumOutcome((self._change("held", self.value),))

    def _go(self, stage: int, env_steps: int, why: str) -> CurriculumOutcome:
        """The event has the value that led there."""
        value = self.value
        self._enter(stage, env_steps)
        self.version += 1
        return CurriculumOutcome((self._change(why, value),))

    def _change(self, why: str, value: float) -> Change:
        number, name = self.stage + 1, self._stages[self.stage].name
        return Change(EVENT, {"number": number, "stage": name, "why": why, "value": None if isnan(value) else value})

    def metrics(self) -> dict[str, float]:
        gate = self._stages[self.stage].gate
        return {"stage": self.stage + 1.0, **({} if gate is None or gate.metric == SUCCESS else {"gate": self.value})}

    def state_dict(self) -> State:
        return {
            "stage": self.stage,
            "version": self.version,
            "entered": self._entered,
            "window": list(self._window),
            "hits": self._hits,
            "misses": self._misses,
            "held": self._held,
        }

    def load_state_dict(self, state: State) -> None:
        self._enter(int(state["stage"]), int(state["entered"]))
        self.version = int(state["version"])
        self._window.extend(state["window"])
        self._hits, self._misses = int(state["hits"]), int(state["misses"])
        self._held = bool(state["held"])
