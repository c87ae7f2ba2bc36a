"""Automatic domain randomisation.  OpenAI 2019, arXiv:1910.07113, algorithm 1.

    every parameter is drawn from a range [low, high] that begins small
    boundary_share of the episodes have one parameter at one of its boundaries, and the others from their ranges
    of `buffer` episodes at a boundary: mean >= widen_at: it moves outwards by step; mean <= narrow_at: back by step
    entropy = 1/d sum_i log(high_i - low_i)

Component 0 draws all parameters from their ranges; components 1 + 2 i and 2 + 2 i have parameter i at its low and its
high boundary. A boundary stays within `limits`, and never comes further inwards than it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, log, nan

from rlstudio.core.contracts import State
from rlstudio.envs.params.distributions import Constant, Distribution, Uniform
from rlstudio.envs.params.draw import Component, Draw
from rlstudio.experiment.curriculum.changes import NO_CHANGE, Change, CurriculumOutcome
from rlstudio.experiment.curriculum.episodes import Episodes, Measure
from rlstudio.experiment.curriculum.sections import AdrConfig, RangeConfig

EVENT = "curriculum_range"


class Boundary:
    """One end of a range: where it is, and what its episodes since it got there achieved."""

    def __init__(self, cfg: RangeConfig, end: int) -> None:
        """`end` is 0 for the low one, 1 for the high one."""
        self.value = cfg.start[end]
        self.since = 0  # the version of the Draw that has it here
        self.results: list[float] = []
        self._first, self._limit = self.value, cfg.limits[end]
        self._outwards = cfg.step if end else -cfg.step

    def move(self, steps: int) -> bool:
        """Outwards (1) or back (-1); whether that changed anything."""
        low, high = sorted((self._first, self._limit))
        before, self.value = self.value, min(max(self.value + steps * self._outwards, low), high)
        return self.value != before


class Adr:
    def __init__(self, cfg: AdrConfig, others: Mapping[str, Distribution], measure: Measure) -> None:
        self._cfg = cfg
        self._others = others
        self._measure = measure
        self.version = 0
        self.names = tuple(cfg.parameters)
        self.boundaries = [Boundary(cfg.parameters[name], end) for name in self.names for end in (0, 1)]

    def range(self, name: str) -> tuple[float, float]:
        at = 2 * self.names.index(name)
        return self.boundaries[at].value, self.boundaries[at + 1].value

    @property
    def draw(self) -> Draw:
        inside = {**self._others, **{name: Uniform(*self.range(name)) for name in self.names}}
        share = self._cfg.boundary_share
        components = [Component(1 - share, inside, "inside")]
        for number, boundary in enumerate(self.boundaries):
            name, end = self.names[number // 2], ("low", "high")[number % 2]
            params = {**inside, name: Constant(boundary.value)}
            components.append(Component(share / len(self.boundaries), params, f"{name} {end}"))
        return Draw(self.version, tuple(components))

    def update(self, episodes: Episodes, env_steps: int) -> CurriculumOutcome:
        values = self._measure(self._cfg.metric, episodes)
        for value, component, version in zip(values, episodes.components, episodes.versions, strict=True):
            if component > 0 and not isnan(value):
                boundary = self.boundaries[component - 1]
                if version >= boundary.since:  # an older episode was at another value
                    boundary.results.append(value)
        moved = [number for number, boundary in enumerate(self.boundaries) if self._judge(boundary)]
        if not moved:
            return NO_CHANGE
        self.version += 1
        for number in moved:
            self.boundaries[number].since = self.version
        names = dict.fromkeys(self.names[number // 2] for number in moved)
        return CurriculumOutcome(tuple(self._change(name) for name in names))

    def _judge(self, boundary: Boundary) -> bool:
        """Whether it moved."""
        if len(boundary.results) < self._cfg.buffer:
            return False
        mean = sum(boundary.results) / len(boundary.results)
        boundary.results = []
        if mean >= self._cfg.widen_at:
            return boundary.move(1)
        return mean <= self._cfg.narrow_at and boundary.move(-1)

    def _change(self, name: str) -> Change:
        low, high = self.range(name)
        return Change(EVENT, {"parameter": name, "low": low, "high": high})

    def metrics(self) -> dict[str, float]:
        """`width`: the mean share of their limits that the ranges take up. There is no entropy while a range is one
        point."""
        widths = {name: high - low for name in self.names for low, high in [self.range(name)]}
        limits = {name: cfg.limits[1] - cfg.limits[0] for name, cfg in self._cfg.parameters.items()}
        logs = [log(width) if width > 0 else nan for width in widths.values()]
        ranges = {
            f"{name}_{end}": v for name in self.names for end, v in zip(("low", "high"), self.range(name), strict=True)
        }
        return {
            "entropy": sum(logs) / len(logs),
            "width": sum(width / limits[name] for name, width in widths.items()) / len(widths),
            **ranges,
        }

    def state_dict(self) -> State:
        return {
            "version": self.version,
            "boundaries": [
                {"value": boundary.value, "since": boundary.since, "results": list(boundary.results)}
                for boundary in self.boundaries
            ],
        }

    def load_state_dict(self, state: State) -> None:
        self.version = int(state["version"])
        for boundary, stored in zip(self.boundaries, state["boundaries"], strict=True):
            boundary.value, boundary.since = float(stored["value"]), int(stored["since"])
            boundary.results = list(stored["results"])
