"""The process of a rank other than 0, started by rank 0 or by torchrun."""

from __future__ import annotations

import sys

from rlstudio.core.contracts import Group, Runtime, State
from rlstudio.core.rng import Rng, seed_all
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.config.imports import import_modules
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.machine import set_threads
from rlstudio.scale.ranks.follower import Parts, follow, ignore_stops, serve
from rlstudio.scale.ranks.group import RankGroup
from rlstudio.scale.ranks.starting import torchrun
from rlstudio.scale.ranks.starting.seat import seat


class Builder:
    """Makes the environments of this rank once, and a trainer over them for each attempt of the run."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None

    def __call__(self, group: Group, plan: State) -> Parts:
        import_modules(plan["config"]["imports"], "rank")
        cfg = experiment_from(plan["config"], "the experiment of rank 0", stored=True)
        if self._runtime is None:
            set_threads(cfg.runtime.threads)
            seed_all(int(Rng(cfg.env.seed).at("ranks", group.rank).integers(2**32)))
            self._runtime = build_runtime(cfg, group)
        return Parts(self._runtime, build_trainer(cfg, self._runtime, int(plan["attempt"])))


def follow_torchrun(cfg: ExperimentConfig) -> bool:
    """Whether this process is a rank other than 0 of torchrun; then it has done what rank 0 wanted."""
    place = seat()
    if cfg.runtime.learners == 1 or place is None or place.rank == 0:
        return False
    ignore_stops()
    nccl = cfg.runtime.backend == "nccl"
    group, build = RankGroup(place.rank, place.size, lambda: torchrun.meet(place, nccl=nccl)), Builder()
    follow(group, lambda plan: build(group, plan))
    return True


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], Builder()))
