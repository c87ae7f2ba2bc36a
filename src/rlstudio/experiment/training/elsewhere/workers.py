"""From the section `rollout` to workers: where they are, and what each of them is told."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlstudio.core.config import Config
from rlstudio.core.contracts import FragmentTag, Group, State
from rlstudio.core.errors import Incompatible
from rlstudio.data.checks.guard import RowGuard
from rlstudio.envs.make import agents_of, resolve_vectorization
from rlstudio.envs.python_envs import is_of_python
from rlstudio.experiment.config.algorithm import algorithm
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.culprit import refuse_changed_torch
from rlstudio.experiment.training.elsewhere.ranks import device_of, part_of
from rlstudio.scale.ray_start import RAY_ADDRESS, cluster_address
from rlstudio.scale.workers.ahead.crew import AheadCrew
from rlstudio.scale.workers.backends import Backend, LocalBackend, Lookahead
from rlstudio.scale.workers.crew import Crew
from rlstudio.scale.workers.job import RolloutJob, slices
from rlstudio.scale.workers.probe import BackendChoice, Work, choose
from rlstudio.scale.workers.runtime import WorkersRuntime

if TYPE_CHECKING:
    from rlstudio.scale.ranks.other_ranks import OtherRanks

LoggedRounds = Mapping[int, Sequence[FragmentTag]]
"""By the version of the newest weights: the fragments that were learned from."""

FREE = 16
"""Versions that the weights of an asynchronous worker may be old where it fills a replay. It is for workers that are
slower than others; how old weights are usually is about one version."""


def workers_runtime(
    whole: ExperimentConfig,
    new_guard: Callable[[], RowGuard],
    group: Group,
    others: OtherRanks | None = None,
    rounds: LoggedRounds | None = None,
) -> WorkersRuntime:
    """One environment is made here for its spaces; the workers are started when they are first asked. In a `group` each
    rank has its part of them. `rounds`: the log of an asynchronous run, whose fragments are collected anew in this
    process."""
    cfg = part_of(whole)
    assert cfg.rollout.workers is not None
    _refuse(cfg)
    job = RolloutJob.of(
        cfg.env,
        algo=cfg.policy.algo,
        train=_plain(cfg.train),
        network=_plain(cfg.policy.network),
        lane=cfg.runtime.lane,
        imports=cfg.imports,
    )
    spaces = job.spaces()
    refuse_changed_torch(cfg.env.id)
    spans = slices(cfg.env.num_envs, cfg.rollout.workers)
    choice = BackendChoice(cfg.rollout.backend, "as configured")
    if rounds is not None:
        choice = BackendChoice("local", "the fragments of a log are collected one after the other")
    elif cfg.rollout.backend == "auto":
        steps, cluster = _steps(cfg), os.environ.get(RAY_ADDRESS)
        work = Work(len(spans[0]), len(spans), steps, cluster, ahead=cfg.rollout.mode == "async")
        choice = choose(job, work, max(len(os.sched_getaffinity(0)) // group.size, 1))
    timeout, restarts = cfg.rollout.step_timeout, cfg.rollout.max_restarts
    ahead = _lookahead(cfg)
    kind = AheadCrew if ahead.fragments else Crew
    backend = _backend(choice.backend, len(spans), ahead, job)
    first_env = group.rank * cfg.env.num_envs
    crew = kind(backend, spans, step_timeout=timeout, max_restarts=restarts, first_env=first_env)
    settings: dict[str, Any] = {
        "new_guard": new_guard,
        "replay_capacity": cfg.buffer.capacity,
        "quarantine": cfg.buffer.quarantine,
        "device": device_of(cfg, group.rank),
        "reason": choice.reason,
        "ahead": ahead,
        "rounds": rounds,
    }
    if group.size == 1:
        return WorkersRuntime(crew, job, spaces, **settings)
    from rlstudio.scale.ranks.runtime import RankWorkersRuntime  # a run that learns alone needs none of it

    backend_of_ranks = cfg.runtime.backend
    return RankWorkersRuntime(crew, job, spaces, group=group, backend=backend_of_ranks, others=others, **settings)


def _lookahead(cfg: ExperimentConfig) -> Lookahead:
    """An update of fresh rollouts takes one of each worker, so what is asked ahead decides how old it is; into a replay
    everybody fills what is done, and asks for the next."""
    if cfg.rollout.mode == "sync":
        return Lookahead()
    if algorithm(cfg.policy.algo).off_policy:
        return Lookahead(1, cfg.rollout.max_staleness or FREE)
    return Lookahead(*[cfg.rollout.max_staleness or 1] * 2)


def _refuse(cfg: ExperimentConfig) -> None:
    if is_of_python(cfg.env.id):
        raise Incompatible(
            f"rollout.workers: {cfg.env.id} is an object of this process, and a worker is another one; name the class"
            " by its file: env.id=FILE.py:Class"
        )
    if getattr(cfg.train, "dataset", None) is not None:
        raise Incompatible(f"rollout.workers: {cfg.policy.algo} learns from a dataset; leave rollout.workers out")
    if cfg.rollout.backend == "ray" and cfg.runtime.learners > 1 and cluster_address() is None:
        raise Incompatible(
            f"rollout.backend: ray with {cfg.runtime.learners} learners needs a cluster that all of them join"
            f" ({RAY_ADDRESS}); use process on one machine"
        )
    kind = resolve_vectorization(cfg.env)
    if agents_of(cfg.env, kind) > 1:
        raise Incompatible(f"rollout.workers: {cfg.env.id} has several agents; leave rollout.workers out")
    if kind not in ("native", "sync"):
        raise Incompatible(
            f"rollout.workers: {cfg.env.id} is stepped as {kind}, which cannot be divided; leave rollout.workers out"
        )


def _backend(name: str, workers: int, ahead: Lookahead, job: RolloutJob) -> Backend:
    if name == "process":
        from rlstudio.scale.workers.process_backend import ProcessBackend

        return ProcessBackend(ahead, job.own_modules)
    if name == "ray":
        from rlstudio.scale.workers.ray_backend import RayBackend

        return RayBackend(workers, cluster_address(), ahead)
    return LocalBackend(ahead)


def _steps(cfg: ExperimentConfig) -> int:
    """Vector steps of one rollout."""
    steps = getattr(cfg.train, "rollout_steps", None)
    return int(steps or max(getattr(cfg.train, "train_every", 1) // cfg.env.num_envs, 1))


def _plain(section: Config) -> State:
    return section.model_dump(mode="json")
