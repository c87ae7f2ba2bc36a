"""The contract of a curriculum, and the one that a config asks for.

    draw                                what coming episodes are drawn from
    update(episodes, env_steps)         once per epoch, with the episodes that ended in it
    metrics()                           where it stands, for the metrics of that epoch

Component k of the Draw means the same in every version: an episode that began before a change still counts for what it
was drawn from. Nothing here knows a clock or a generator: the same episodes lead to the same Draw.
"""

from __future__ import annotations

from typing import Protocol

from rlstudio.core.contracts import Stateful
from rlstudio.envs.params.draw import Draw
from rlstudio.experiment.curriculum.adr import Adr
from rlstudio.experiment.curriculum.anneal import Anneal
from rlstudio.experiment.curriculum.changes import CurriculumOutcome
from rlstudio.experiment.curriculum.config import CurriculumConfig
from rlstudio.experiment.curriculum.episodes import Episodes, Measure
from rlstudio.experiment.curriculum.levels import Levels
from rlstudio.experiment.curriculum.stages import Stages


class Curriculum(Stateful, Protocol):
    @property
    def draw(self) -> Draw: ...

    def update(self, episodes: Episodes, env_steps: int) -> CurriculumOutcome:
        """Take account of the episodes that ended; `draw` may be another one afterwards."""
        ...

    def metrics(self) -> dict[str, float]:
        """Where it stands, by the names behind `curriculum/`."""
        ...


def new_curriculum(cfg: CurriculumConfig, env: Draw, planned_steps: int) -> Curriculum:
    """`env`: the Draw of `env.params`, which counts for the parameters that the curriculum does not set."""
    measure = Measure(cfg.success)
    others = {name: drawn for name, drawn in env.components[0].params.items() if name not in cfg.parameters}
    if cfg.levels is not None:
        return Levels(cfg.levels, others, measure)
    if cfg.adr is not None:
        return Adr(cfg.adr, others, measure)
    if cfg.anneal is not None:
        return Anneal(cfg.anneal, others, planned_steps)
    return Stages(cfg.stages, others, measure)
