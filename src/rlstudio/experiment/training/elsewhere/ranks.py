"""An experiment that several ranks learn: the part of each, and where rank 0 has the others from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlstudio.core.contracts import Runtime, Trainer
from rlstudio.core.errors import ConfigError
from rlstudio.envs.python_envs import is_of_python
from rlstudio.experiment.config.agreement import divided_sizes
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.machine import pick_device
from rlstudio.scale.ranks.starting.seat import seat

if TYPE_CHECKING:
    from rlstudio.scale.ranks.other_ranks import OtherRanks

PROCESS = "rlstudio.experiment.training.rank_process"
"""What the process of another rank runs."""

REPLACEMENT_SECONDS = 60.0
"""For workers to be started, also on a machine that does much else."""


def part_of(cfg: ExperimentConfig) -> ExperimentConfig:
    """What one of the ranks has of the environments, of the replay and of each minibatch."""
    if (ranks := cfg.runtime.learners) == 1:
        return cfg
    sections = {}
    for (section, field), size in divided_sizes(cfg).items():
        sections[section] = getattr(cfg, section).model_copy(update={field: size // ranks})
    return cfg.model_copy(update=sections)


def device_of(cfg: ExperimentConfig, rank: int) -> str:
    """`cuda` is a GPU for each rank; where Ray has placed a rank, the only one that it sees."""
    device = cfg.runtime.device
    if cfg.runtime.ranks == "ray":
        return pick_device(device)
    return pick_device(f"cuda:{rank}" if device == "cuda" and cfg.runtime.learners > 1 else device)


def other_ranks(cfg: ExperimentConfig) -> OtherRanks | None:
    """Those of a run whose rank 0 this process is; they are there once they are needed. None: it learns alone."""
    size, nccl = cfg.runtime.learners, cfg.runtime.backend == "nccl"
    if size == 1:
        return None
    from rlstudio.scale.ranks.other_ranks import OtherRanks
    from rlstudio.scale.ranks.starting import torchrun
    from rlstudio.scale.ranks.starting.children import Children

    if is_of_python(cfg.env.id):
        raise ConfigError(
            f"runtime.learners: {cfg.env.id} is an object of this process, and other ranks cannot have it; name the"
            " class by its file: env.id=FILE.py:Class"
        )
    patience = _patience(cfg)
    place = seat()
    if cfg.runtime.ranks == "ray":
        if place is not None:
            raise ConfigError("runtime.ranks: ray, and torchrun has started this process; leave one of them out")
        return _in_ray(cfg, patience)
    if place is None:
        children = Children(PROCESS, size, patience, nccl=nccl)
        return OtherRanks(size, children.meet, children.end)
    if place.size != size:
        raise ConfigError(f"runtime.learners: is {size}, and torchrun started {place.size} processes; set it to that")
    return OtherRanks(
        size, lambda: torchrun.meet(place, nccl=nccl, patience=patience), lambda asked: None, awaited=True
    )


def _in_ray(cfg: ExperimentConfig, patience: float) -> OtherRanks:
    from rlstudio.scale.ranks.other_ranks import OtherRanks
    from rlstudio.scale.ranks.starting.on_ray import FIELD, RankResources, RayRanks
    from rlstudio.scale.ray_start import cluster_address, require_ray

    require_ray(FIELD)
    runtime = cfg.runtime
    share = RankResources(runtime.threads, int(runtime.device.startswith("cuda")))
    placed = RayRanks(PROCESS, runtime.learners, patience, share, cluster_address(), nccl=runtime.backend == "nccl")
    return OtherRanks(runtime.learners, placed.meet, placed.end)


def _patience(cfg: ExperimentConfig) -> float:
    """Seconds that rank 0 waits in one operation for the others. A worker of theirs that hangs has to be noticed by
    them, and replaced, first."""
    rollout, own = cfg.rollout, part_of(cfg)
    if own.rollout.workers is None:
        return rollout.hang_timeout or rollout.step_timeout
    envs = -(-own.env.num_envs // own.rollout.workers)
    return rollout.step_timeout * (1 + envs) * (1 + rollout.max_restarts) + REPLACEMENT_SECONDS


def is_follower() -> bool:
    """Whether torchrun has started this process as a rank other than 0 (`rank_process.follow_torchrun`)."""
    place = seat()
    return place is not None and place.rank > 0


def led(trainer: Trainer, cfg: ExperimentConfig, runtime: Runtime, attempt: int) -> Trainer:
    """The trainer as the session has it: in rank 0 of several that of all ranks, anywhere else itself."""
    if runtime.group.size == 1 or runtime.group.rank:
        return trainer
    from rlstudio.scale.ranks.lead import LeadTrainer
    from rlstudio.scale.ranks.runtime import LearnsInRanks

    assert isinstance(runtime, LearnsInRanks)
    assert runtime.others is not None
    return LeadTrainer(trainer, runtime.others, {"config": cfg.model_dump(mode="json"), "attempt": attempt})
