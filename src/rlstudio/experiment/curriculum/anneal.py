"""Ranges that move with the share of the run that is done.

t = min(1, env_steps / (over * steps of the run))        every number: (1 - t) start + t end
of log_uniform its logarithms move so
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log

from rlstudio.core.contracts import State
from rlstudio.envs.params.distributions import Constant, Distribution, LogUniform, Normal, Uniform
from rlstudio.envs.params.draw import Component, Draw
from rlstudio.experiment.curriculum.changes import NO_CHANGE, CurriculumOutcome
from rlstudio.experiment.curriculum.config import drawn_from
from rlstudio.experiment.curriculum.episodes import Episodes
from rlstudio.experiment.curriculum.sections import AnnealConfig


class Anneal:
    def __init__(self, cfg: AnnealConfig, others: Mapping[str, Distribution], planned_steps: int) -> None:
        self._others = others
        self._start, self._end = drawn_from(cfg.start), drawn_from(cfg.end)
        self._steps = cfg.over * planned_steps
        self.share = 0.0
        self.version = 0

    @property
    def draw(self) -> Draw:
        moved = {name: between(start, self._end[name], self.share) for name, start in self._start.items()}
        return Draw(self.version, (Component(1.0, {**self._others, **moved}, "anneal"),))

    def update(self, episodes: Episodes, env_steps: int) -> CurriculumOutcome:
        share = min(env_steps / self._steps, 1.0)
        self.version += share != self.share
        self.share = share
        return NO_CHANGE

    def metrics(self) -> dict[str, float]:
        return {"share": self.share}

    def state_dict(self) -> State:
        return {"share": self.share, "version": self.version}

    def load_state_dict(self, state: State) -> None:
        self.share, self.version = float(state["share"]), int(state["version"])


def between(start: Distribution, end: Distribution, share: float) -> Distribution:
    """The distribution at this share of the way; both are of one kind."""

    def moved(first: float, last: float) -> float:
        return last if share == 1 else (1 - share) * first + share * last  # without the last bit of rounding

    match start, end:
        case Constant(), Constant():
            return Constant(moved(start.value, end.value))
        case Uniform(), Uniform():
            return Uniform(moved(start.low, end.low), moved(start.high, end.high))
        case LogUniform(), LogUniform():
            if share == 1:
                return end
            pairs = ((start.low, end.low), (start.high, end.high))
            return LogUniform(*(exp(moved(log(first), log(last))) for first, last in pairs))
        case Normal(), Normal():
            bounds = (start.low, end.low), (start.high, end.high)
            low, high = (last if first == last else moved(first, last) for first, last in bounds)
            return Normal(moved(start.mean, end.mean), moved(start.std, end.std), low, high)
    raise ValueError(f"{start.to_json()} cannot become {end.to_json()} step by step")
